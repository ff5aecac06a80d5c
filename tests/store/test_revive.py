"""revive.sql: tried again on request, with its past kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway.core import codec
from headway.core.verdict import Kind
from headway.store.rows import Claim
from headway.store.statements import jobs
from tests.store.aside import Aside
from tests.store.store import NOW, Store, ask, counted, engine_connection, new_job


def test_a_revived_job_has_fresh_attempts_and_goes_on_counting_claims(
    store: Store, worker: int
) -> None:
    """I3, and G7: it stands where it failed, with its past kept."""
    claim = store.held(worker, max_attempts=2, input={"k": 1}, headers={"h": "v"}, ttl=60.0)
    store.settle(claim, "retry", error="one")
    (claim,) = store.claim(worker)
    store.settle(claim, "fail", error="two")
    store.advance(100)
    assert store.run(jobs.revive(store.target, UUID(claim.id), None, store.now))
    assert store.archived(claim.id) is None
    row = store.live(claim.id)
    assert row is not None
    assert row == row | {
        "state": "r",
        "attempt": 0,
        "claims": 2,
        "max_attempts": 2,
        "input": {"k": 1},
        "headers": {"h": "v"},
        "run_at": NOW + timedelta(seconds=100),
        "created_at": NOW,
        "expires_at": None,
        "crashes": 0,
    }
    (again,) = store.claim(store.register())
    assert (counted(again), again.attempt) == (3, 1)
    messages = [attempt["error"]["message"] for attempt in store.attempts(claim.id)]
    assert messages == ["one", "two"]


def test_a_revived_job_does_not_hear_its_old_life(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.settle(claim, "fail")
    store.run(jobs.revive(store.target, UUID(claim.id), None, store.now))
    store.claim(worker)
    before = store.everything()
    assert not store.settle(claim, "succeed")
    assert store.everything() == before


def test_a_scheduled_job_is_hurried(store: Store) -> None:
    job_id = store.enqueue(delay=3600.0)
    other = store.enqueue()
    with store.listening() as heard:
        assert store.run(jobs.revive(store.target, job_id, None, store.now))
        assert heard() == ["ready 0 q"]
    row, between = store.live(job_id), store.live(other)
    assert row is not None
    assert between is not None
    assert (row["state"], row["run_at"]) == ("r", NOW)
    assert row["seq"] > between["seq"]


def test_two_revivals_at_the_same_time_make_one_job(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.settle(claim, "fail")
    revive = jobs.revive(store.target, UUID(claim.id), None, store.now)
    with engine_connection(store.dsn) as conn, conn.transaction():
        assert store.run(revive, conn)
        second = Aside(store, revive).wait_until_it_waits()
    assert second.answer() is False
    assert store.states(claim.id) == ["ready"]


def _fail(store: Store, worker: int, **fields: Any) -> UUID:
    claim = store.held(worker, **fields)
    assert store.settle(claim, "fail")
    return UUID(claim.id)


def _revive(store: Store, job_id: UUID | str, step: str | None = None) -> bool:
    return store.run(jobs.revive(store.target, UUID(str(job_id)), step, store.now))


@pytest.mark.parametrize("ordered", [False, True])
def test_a_job_with_a_key_comes_back_into_its_line(
    store: Store, worker: int, ordered: bool
) -> None:
    job_id = _fail(store, worker, key="k", key_limit=1, ordered=ordered)
    waiting = store.enqueue(key="k", ordered=ordered)
    with store.listening() as heard:
        assert _revive(store, job_id)
        assert heard() == ["blocked"]
    row = store.row(job_id)
    assert row == row | {
        "state": "b",
        "key": "k",
        "key_limit": 1,
        "ordered": ordered,
        "holds": False,
    }
    assert row["seq"] > store.row(waiting)["seq"], "at its end"
    assert store.admit("k") == 1
    assert store.row(waiting)["holds"]


def test_an_ordered_job_that_waits_for_its_retry_is_hurried_with_the_room_it_has(
    store: Store, worker: int
) -> None:
    claim = store.held(worker, key="k", ordered=True)
    store.settle(claim, "retry", delay=3600)
    assert _revive(store, claim.id)
    assert (store.row(claim.id)["state"], store.row(claim.id)["holds"]) == ("r", True)


def test_one_that_freed_its_room_is_hurried_into_its_line(store: Store, worker: int) -> None:
    claim = store.held(worker, key="k")
    store.settle(claim, "retry", delay=3600)
    assert _revive(store, claim.id)
    assert (store.row(claim.id)["state"], store.row(claim.id)["holds"]) == ("b", False)


@pytest.mark.parametrize("until_claimed", [False, True])
def test_a_unique_key_that_is_free_is_taken_again(
    store: Store, worker: int, until_claimed: bool
) -> None:
    fields: dict[str, Any] = {"unique_key": "u", "on_taken": "skip", "until_claimed": until_claimed}
    job_id = _fail(store, worker, **fields)
    assert _revive(store, job_id)
    row = store.row(job_id)
    assert (row["unique_key"], row["until_claimed"]) == ("u", until_claimed)
    # One that is unique while it waits for its first claim has had that.
    assert (store.enqueue(**fields) == job_id) is not until_claimed


def test_a_unique_key_that_another_job_has_meanwhile_is_given_up(store: Store, worker: int) -> None:
    job_id = _fail(store, worker, unique_key="u", on_taken="skip")
    other = store.enqueue(unique_key="u", on_taken="skip")
    assert other != job_id
    assert _revive(store, job_id)
    assert store.row(job_id)["unique_key"] is None
    assert store.row(other)["unique_key"] == "u"
    assert store.count("job") == 2


def test_a_unique_key_that_is_being_taken_at_this_moment_is_not_had_twice(
    store: Store, worker: int
) -> None:
    job_id = _fail(store, worker, unique_key="u", on_taken="skip")
    taken = new_job(unique_key="u", on_taken="skip")
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(jobs.enqueue(store.target, [taken], store.now), conn)
        revive = jobs.revive(store.target, job_id, None, store.now)
        waiting = Aside(store, revive).wait_until_it_waits()
    assert isinstance(waiting.answer(), psycopg.errors.UniqueViolation)
    assert store.states(job_id) == ["failed"], "nothing has changed"
    assert store.run(jobs.retry([str(job_id)])) == [str(job_id)], (
        "the function for people asks again"
    )
    assert store.row(job_id)["unique_key"] is None


def _at_step_two(store: Store, worker: int, kind: Kind = "fail", **fields: Any) -> Claim:
    """A flow that ended in its second step."""
    claim = store.held(
        worker, task="order", step="one", input={"n": 1}, carried=codec.Raw(b'{"a": 1}'), **fields
    )
    store.advance(1)
    store.settle(
        claim, "advance", step="two", input={"m": 2}, queue="two", priority=5, carried={"a": 2}
    )
    (second,) = store.claim(worker, ask("two", 5, tasks=["order/two"]))
    assert store.settle(second, kind)
    return second


@pytest.mark.parametrize("step", [None, "two"])
def test_a_flow_resumes_at_the_step_where_it_failed(
    store: Store, worker: int, step: str | None
) -> None:
    claim = _at_step_two(store, worker)
    assert _revive(store, claim.id, step)
    row = store.row(claim.id)
    assert row == row | {
        "state": "r",
        "step": "two",
        "input": {"m": 2},
        "carried": {"a": 2},
        "queue": "two",
        "priority": 5,
        "attempt": 0,
        "claims": 2,
    }


def test_a_flow_goes_back_to_an_earlier_step_with_what_that_had(store: Store, worker: int) -> None:
    store.declare("order/one", queue="q", priority=7, max_attempts=11)
    claim = _at_step_two(store, worker)
    assert _revive(store, claim.id, "one")
    row = store.row(claim.id)
    assert row == row | {
        "state": "r",
        "step": "one",
        "input": {"n": 1},
        "carried": {"a": 1},
        "queue": "q",
        "priority": 7,
        "max_attempts": 11,
        "attempt": 0,
        "claims": 2,
    }
    assert len(store.attempts(claim.id)) == 2, "its history stays"


def test_a_step_that_was_done_twice_has_the_input_of_the_last_time(
    store: Store, worker: int
) -> None:
    claim = _at_step_two(store, worker)
    _revive(store, claim.id, "one")
    row = store.row(claim.id)
    store.advance(1)
    store.run(jobs.edit(UUID(claim.id), "one", b'{"n": 9}'))
    (claim,) = store.claim(worker, ask(row["queue"], row["priority"], tasks=["order/one"]))
    store.settle(claim, "advance", step="two", input={"m": 3})
    (claim,) = store.claim(worker, ask(tasks=["order/two"]))
    store.settle(claim, "fail")
    assert _revive(store, claim.id, "one")
    assert store.row(claim.id)["input"] == {"n": 9}


def test_a_step_where_the_job_never_was_is_refused(store: Store, worker: int) -> None:
    claim = _at_step_two(store, worker)
    before = store.everything()
    assert not _revive(store, claim.id, "three")
    assert store.everything() == before
    waiting = store.enqueue(delay=60.0)
    assert not _revive(store, waiting, "one"), "and so is a step for a job that still waits"


def test_a_flow_that_succeeded_is_not_gone_back_to(store: Store, worker: int) -> None:
    claim = _at_step_two(store, worker, "succeed")
    before = store.everything()
    assert not _revive(store, claim.id, "one")
    assert not _revive(store, claim.id)
    assert store.everything() == before


@pytest.mark.parametrize(("ordered", "limit"), [(False, 3), (True, 1), (False, 0)])
def test_r6_a_step_with_a_key_is_gone_back_to_with_its_key(
    store: Store, worker: int, ordered: bool, limit: int
) -> None:
    store.declare("order/one")
    key: dict[str, Any] = {"key": "k", "key_limit": limit, "ordered": ordered}
    claim = _at_step_two(store, worker, **key)
    row = store.archived(claim.id)
    assert row is not None
    assert (row["key"], row["key_limit"], row["ordered"]) == (None, None, False)
    with store.listening() as heard:
        assert _revive(store, claim.id, "one")
        assert heard() == ["blocked"]
    row = store.row(claim.id)
    assert row == row | key | {"state": "b", "holds": False}
    assert store.admit("k") == 1
    (again,) = store.claim(worker, ask(tasks=["order/one"]))
    assert again.key == "k"


@pytest.mark.parametrize("ending", ["fail", "lose"])
def test_r6_a_step_without_a_key_is_gone_back_to_without_one(
    store: Store, worker: int, ending: str
) -> None:
    options = {"retry": {"max_crashes": 1}}
    claim = store.held(worker, task="order", step="one", input={"n": 1}, options=options)
    store.advance(1)
    store.settle(claim, "advance", step="two", key="k", key_limit=2, ordered=True)
    assert store.admit("k") == 1
    (second,) = store.claim(worker, ask(tasks=["order/two"]))
    if ending == "fail":
        assert store.settle(second, "fail")
    else:
        store.advance(30)
        assert store.rescue() == (0, 1)
    assert _revive(store, claim.id, "one")
    row = store.row(claim.id)
    none = {"key": None, "key_limit": None, "ordered": False, "holds": False}
    assert row == row | none | {"state": "r", "step": "one"}
    (again,) = store.claim(store.register(), ask(tasks=["order/one"]))
    assert again.key is None
    store.settle(again, "fail")
    assert _revive(store, claim.id, "two"), "and forth again"
    row = store.row(claim.id)
    assert row == row | {"state": "b", "key": "k", "key_limit": 2, "ordered": True}
