"""An admitted job whose queue or task is paused does not hold up others of its key."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headway.store.statements import jobs
from tests.store.store import TASK, Store, ask, new_job

_SHUT: dict[str, tuple[dict[str, Any], Any]] = {
    "queue": ({}, lambda store: store.pause("q")),
    "task": ({"task": "other"}, lambda store: store.pause("other", "task")),
    "flow": ({"task": "flow", "step": "one"}, lambda store: store.pause("flow", "task")),
    "step": ({"task": "flow", "step": "one"}, lambda store: store.pause("flow/one", "task")),
    "limit of none": ({}, lambda store: store.limit("q", concurrency=0)),
}


@pytest.fixture(params=_SHUT.values(), ids=_SHUT)
def held_up(store: Store, request: pytest.FixtureRequest) -> Any:
    """A job that was admitted under its key before its queue or task was shut."""
    fields, shut = request.param
    job_id = store.enqueue(key="k", **fields)
    assert store.admit("k") == 1
    shut(store)
    return job_id


def _look(store: Store) -> int:
    """Scan as an admitter scans every line."""
    roomy = [line.key for line in store.run(jobs.lines("", 9, store.now)) if line.room]
    return store.admit(*roomy) if roomy else 0


def _states(store: Store, *ids: Any) -> list[str]:
    return [state for job_id in ids for state in store.states(job_id)]


def test_a_job_that_cannot_run_gives_its_room_to_one_that_can(store: Store, held_up: Any) -> None:
    able = store.enqueue(key="k", queue="open")
    assert _look(store) == 1
    assert _states(store, held_up, able) == ["blocked", "ready"]
    assert _look(store) == 0, "and waits"


def test_without_a_job_that_can_run_no_room_is_given_back(store: Store, held_up: Any) -> None:
    another = store.enqueue(key="k", queue="q", task="other")
    store.pause("q")
    store.pause("other", "task")
    assert _look(store) == 0
    assert _states(store, held_up, another) == ["ready", "blocked"]


def test_who_gave_way_runs_when_its_queue_is_open_again(store: Store, worker: int) -> None:
    """After those that were in line when it was admitted."""
    let_in, in_line = store.enqueue(key="k"), store.enqueue(key="k")
    able = store.enqueue(key="k", queue="open")
    assert store.admit("k") == 1
    store.pause("q")
    assert _look(store) == 1
    (claim,) = store.claim(worker, ask("open"))
    store.resume("q")
    store.settle(claim, "succeed")
    assert _look(store) == 1
    assert _states(store, let_in, in_line, able) == ["blocked", "ready", "succeeded"]
    store.cancel(in_line)
    assert _look(store) == 1
    assert _states(store, let_in) == ["ready"]


def test_a_pause_that_ends_by_itself_holds_up_no_job_for_longer(store: Store) -> None:
    shut, able = store.enqueue(key="k"), store.enqueue(key="k", queue="open")
    store.pause("q", until=60.0)
    assert _look(store) == 1
    assert _states(store, shut, able) == ["blocked", "ready"]
    store.cancel(able)
    assert _look(store) == 0
    store.advance(60)
    assert _look(store) == 1
    assert _states(store, shut) == ["ready"]


def test_admission_skips_jobs_that_cannot_run(store: Store, worker: int) -> None:
    running = store.held(worker, key="k", queue="open")
    shut = [store.enqueue(key="k") for _ in range(3)]
    able = store.enqueue(key="k", queue="open")
    store.pause("q")
    store.settle(running, "succeed")
    with store.conn.transaction():  # as the job loop does
        store.run(jobs.lock_keys(["k"]))
        assert store.run(jobs.admit(store.target, ["k"], store.now)).count == 1
    assert _states(store, *shut, able) == ["blocked"] * 3 + ["ready"]


def test_an_ordered_line_waits_for_its_first(store: Store) -> None:
    first = store.enqueue(key="k", ordered=True)
    assert store.admit("k") == 1
    store.pause("q")
    second = store.enqueue(key="k", queue="open", ordered=True)
    assert _look(store) == 0
    assert _states(store, first, second) == ["ready", "blocked"]
    store.cancel(first)
    third = store.enqueue(key="k", ordered=True)
    assert _look(store) == 1
    assert _states(store, second, third) == ["ready", "blocked"]


def test_under_a_paused_key_no_room_is_given_back(store: Store, held_up: Any) -> None:
    store.enqueue(key="k", queue="open")
    store.pause("k", "key")
    assert _look(store) == 0
    assert store.admit("k") == 0
    assert _states(store, held_up) == ["ready"]


def test_a_job_that_is_being_claimed_stays(store: Store, worker: int) -> None:
    """The claim began before the pause: it is not in the way of anyone who looks, nor they in its."""
    claimed, waits = store.enqueue(key="k"), store.enqueue(key="k", queue="open")
    assert store.admit("k") == 1
    with psycopg.connect(store.dsn) as other:
        other.execute(f"set search_path = {store.schema}")
        other.execute("select 1 from job where id = %s for no key update", (claimed,))
        store.pause("q")
        assert _look(store) == 0
        assert _states(store, claimed, waits) == ["ready", "blocked"]
    assert _look(store) == 1


def test_a_locked_job_is_skipped(store: Store, held_up: Any) -> None:
    locked, able = (store.enqueue(key="k", queue="open") for _ in range(2))
    with psycopg.connect(store.dsn) as other:
        other.execute(f"set search_path = {store.schema}")
        other.execute("select 1 from job where id = %s for no key update", (locked,))
        assert _look(store) == 1
        assert _states(store, held_up, locked, able) == ["blocked", "blocked", "ready"]


def test_tokens_are_kept_for_jobs_that_can_run(store: Store) -> None:
    store.limit(TASK, "keys", rate="2/min", burst=2)
    key = f"{TASK}/k"
    shut = [store.enqueue(key=key, key_limit=0) for _ in range(3)]
    assert store.admit(key) == 2
    able = [store.enqueue(key=key, key_limit=0, queue="open") for _ in range(3)]
    store.pause("q")
    assert _look(store) == 2
    assert _states(store, *shut, *able) == ["blocked"] * 3 + ["ready"] * 2 + ["blocked"]


def test_g9_a_long_line_of_a_queue_that_is_shut_is_hopped_over(store: Store) -> None:
    many = [new_job(key="k", priority=n % 3) for n in range(5_000)]
    store.run(jobs.enqueue(store.quiet, many, store.now))
    store.pause("q")
    able = store.enqueue(key="k", queue="open", priority=-1)
    store.eyes.execute("analyze job")
    query = "select pg_stat_get_xact_tuples_fetched(%s::regclass) as n"
    with store.conn.transaction():
        store.run(jobs.lock_keys(["k"]))
        store.run(jobs.unadmit(["k"], store.now))
        assert store.run(jobs.admit(store.target, ["k"], store.now)).count == 1
        row = store.conn.execute(query, (f"{store.schema}.job",)).fetchone()
        assert row is not None
        assert row[0] < 100, "it walked the line"
    assert _states(store, able) == ["ready"]
