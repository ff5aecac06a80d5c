"""Declarations of workers, corrections of people, and ids that the database makes."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from headway import Headway, Retention, Retry
from headway.core.definition import Definition
from headway.core.ids import new_id
from headway.store.statements import fleet, jobs
from tests.store.aside import Aside
from tests.store.store import Store, engine_connection

_KEEP = Retention(succeeded="7d", failed="none")


def _definitions(keep: Retention = _KEEP) -> list[Definition]:
    """Of an app with a task and a flow."""
    hw = Headway("postgresql://nowhere", retention=keep)

    @hw.task(
        queue="mail",
        priority=3,
        retry=Retry(max_attempts=9),
        keep=Retention(succeeded="none", failed="1h"),
        dead_letter="dead",
        on_failure="alert",
    )
    async def welcome(user: int) -> None: ...

    order = hw.flow("order", queue="orders")

    @order.step(retry=Retry(max_attempts=2))
    async def charge(order_id: int) -> None: ...

    @order.step(queue="mail")
    async def receipt(order_id: int) -> None: ...

    return [definition for task in hw.tasks.values() for definition in task.definitions()]


def _declare(store: Store, keep: Retention = _KEEP) -> int:
    return store.run(fleet.declare(_definitions(keep)))


def test_tasks_flows_and_steps_are_declared_by_what_they_are_called(store: Store) -> None:
    assert _declare(store) == 4
    rows = {row["name"]: row for row in store.rows("select * from task")}
    assert set(rows) == {"welcome", "order", "order/charge", "order/receipt"}
    assert rows["welcome"] == {
        "name": "welcome",
        "first_step": "",
        "queue": "mail",
        "priority": 3,
        "max_attempts": 9,
        "max_crashes": 3,
        "keep_succeeded": None,
        "keep_failed": timedelta(hours=1),
        "dead_letter": "dead",
        "on_failure": "alert",
        "keys": [],
    }
    assert rows["order"] == rows["order"] | {
        "first_step": "charge",
        "queue": "orders",
        "max_attempts": 2,
        "keep_succeeded": timedelta(days=7),
        "keep_failed": None,
    }
    assert (rows["order/receipt"]["queue"], rows["order/receipt"]["first_step"]) == ("mail", "")


def test_only_what_changed_is_written(store: Store) -> None:
    _declare(store)
    before = store.everything()["task"]
    assert _declare(store) == 0
    assert store.everything()["task"] == before
    assert _declare(store, Retention(succeeded="1d", failed="2d")) == 3, (
        "all but the one with its own"
    )
    assert len(set(store.everything()["task"]) & set(before)) == 1


def test_a_task_that_is_no_longer_declared_stays(store: Store) -> None:
    store.declare("old")
    _declare(store)
    assert store.count("task") == 5


def test_two_workers_that_declare_at_the_same_time_do_not_wait_in_a_circle(store: Store) -> None:
    """In the order of the names, not of the app: the second has none in hand while it waits for the
    first of them."""
    welcome, charge, receipt = _definitions()
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(fleet.declare([charge]), conn)
        other = Aside(store, fleet.declare([welcome, charge, receipt])).wait_until_it_waits()
        assert store.run(fleet.declare([welcome]), conn) == 1
    assert other.answer() == 1, "what the first had not declared"
    assert store.count("task") == 4


# -- edit -----------------------------------------------------------------------------------------


def _edit(store: Store, job_id: UUID | str, step: str | None = None) -> bool:
    return store.run(jobs.edit(UUID(str(job_id)), step, b'{"fixed": true}'))


@pytest.mark.parametrize("state", ["ready", "scheduled", "blocked"])
def test_the_input_of_a_job_that_waits_is_corrected_and_nothing_else(
    store: Store, state: str
) -> None:
    fields: dict[str, Any] = {"scheduled": {"delay": 60.0}, "blocked": {"key": "k"}}.get(state, {})
    job_id = store.enqueue(**fields)
    before = store.row(job_id)
    assert _edit(store, job_id)
    assert store.row(job_id) == before | {"input": {"fixed": True}}


@pytest.mark.parametrize("kind", ["fail", "cancel"])
def test_the_input_of_a_job_that_ended_without_success_is_corrected(
    store: Store, worker: int, kind: Any
) -> None:
    claim = store.held(worker)
    if kind == "cancel":
        store.cancel(claim.id)
    assert store.settle(claim, kind)
    before = store.archived(claim.id)
    assert before is not None
    assert _edit(store, claim.id)
    assert store.archived(claim.id) == before | {"input": {"fixed": True}}
    assert store.run(jobs.revive(store.target, UUID(claim.id), None, store.now))
    assert store.row(claim.id)["input"] == {"fixed": True}


def test_what_runs_or_succeeded_is_not_edited(store: Store, worker: int) -> None:
    done, running = store.held(worker), store.held(worker)
    store.settle(done, "succeed")
    before = store.everything()
    assert not _edit(store, done.id)
    assert not _edit(store, running.id)
    assert not _edit(store, uuid4())
    assert store.everything() == before


def test_an_input_made_for_one_step_is_not_given_to_another(store: Store, worker: int) -> None:
    """The job went on while its new input was checked against the step it stood at."""
    claim = store.held(worker, task="order", step="one")
    store.settle(claim, "advance", step="two")
    before = store.everything()
    assert not _edit(store, claim.id, "one")
    assert store.everything() == before
    assert _edit(store, claim.id, "two")


# -- ids ------------------------------------------------------------------------------------------


def test_an_id_of_the_databases_is_a_uuid7_of_its_moment(store: Store) -> None:
    earliest = time.time()
    ids = [row["id"] for row in store.rows("select new_id() as id from generate_series(1, 2000)")]
    latest = time.time()
    assert len(set(ids)) == 2000
    assert {job_id.version for job_id in ids} == {7}
    assert {job_id.variant for job_id in ids} == {new_id().variant}
    moments = [(job_id.int >> 80) / 1000 for job_id in ids]
    assert moments == sorted(moments), "in the order of their making, by the millisecond"
    assert earliest - 0.002 <= moments[0] <= moments[-1] <= latest + 0.002
    chance = [job_id.int & ((1 << 62) - 1) for job_id in ids]
    assert chance != sorted(chance)
    assert len({(job_id.int >> 64) & 0xFFF for job_id in ids}) > 100, (
        "chance next to the version, too"
    )
