"""rescue.sql: the jobs of workers that were lost (G3, G6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from headway.core import codec
from headway.store.rows import Rescued
from headway.store.statements import fleet, jobs
from headway.store.statements.jobs import Settled
from tests.store.store import NOW, Store, ask, counted, engine_connection, shares, verdict


def _options(max_crashes: Any) -> dict[str, Any]:
    return {"retry": {"max_crashes": max_crashes}}


def test_g3_the_jobs_of_a_lost_worker_run_again(store: Store, worker: int) -> None:
    claim = store.held(worker)
    between = store.enqueue()
    store.advance(30)
    assert store.rescue() == (1, 0)
    row = store.row(claim.id)
    assert (row["state"], row["worker_id"]) == ("s", None)
    assert row["seq"] > store.row(between)["seq"], "at the tail: it has had its turn"
    assert (row["attempt"], row["claims"], row["crashes"]) == (0, 1, 1)
    store.advance(1)
    assert store.run(jobs.promote(store.target, None, 9, store.now)).count == 1
    claims = {claim.id: claim for claim in store.claim(store.register())}
    assert (counted(claims[claim.id]), claims[claim.id].attempt) == (2, 1)
    assert claims[claim.id].crashes == 1, "its next worker knows that it is a suspect"


def test_g6_a_crash_is_on_record_and_costs_no_attempt(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.advance(45)
    (rescued,) = store.run(jobs.rescue(store.target, 9, store.now))
    assert rescued == Rescued(claim.id, worker, "r", "resize", "", "host:1", True)
    (attempt,) = store.attempts(claim.id)
    assert attempt == attempt | {
        "worker_id": worker,
        "claims": 1,
        "attempt": 1,
        "started_at": NOW,
        "finished_at": NOW + timedelta(seconds=45),
        "outcome": "r",
    }
    assert attempt["error"]["type"] == "WorkerLost"
    assert "host:1" in attempt["error"]["message"]
    assert store.row(claim.id)["attempt"] == 0


def test_g6_suspects_come_back_after_a_back_off_that_doubles(store: Store) -> None:
    job_id = store.enqueue(max_attempts=1, options=_options(9))
    for crashes in range(6):
        (claim,) = store.claim(store.register(lease=1))
        assert (claim.id, claim.attempt, claim.crashes) == (str(job_id), 1, crashes)
        store.advance(1)
        assert store.rescue() == (1, 0)
        wait = (store.row(job_id)["run_at"] - store.now).total_seconds()
        assert 2**crashes / 2 <= wait <= 2**crashes
        store.advance(wait)
        assert store.run(jobs.promote(store.target, None, 9, store.now)).count == 1


def _crash(store: Store) -> tuple[int, int]:
    """Have the only job claimed by a worker that is lost."""
    assert len(store.claim(store.register(lease=1))) == 1
    store.advance(1)
    answer = store.rescue()
    store.advance(60)
    store.run(jobs.promote(store.target, None, 9, store.now))
    return answer


@pytest.mark.parametrize(
    ("declared", "options", "most"),
    [
        (None, None, 3),
        (2, None, 2),
        (None, _options(1), 1),
        (5, _options(2), 2),  # what the job itself says counts
        (1, {"retry": {"base": 2.0}}, 1),
    ],
)
def test_g6_a_job_that_kills_its_worker_fails_after_max_crashes(
    store: Store, declared: int | None, options: dict[str, Any] | None, most: int
) -> None:
    if declared is not None:
        store.declare(max_crashes=declared, on_failure="called")
    job_id = store.enqueue(max_attempts=1, input={"k": 1}, options=options)
    assert [_crash(store) for _ in range(most)] == [(1, 0)] * (most - 1) + [(0, 1)]
    row = store.archived(job_id)
    assert row is not None
    assert (row["state"], row["attempt"], row["input"]) == ("f", 1, {"k": 1})
    assert row["error"]["type"] == "WorkerLost"
    assert [attempt["outcome"] for attempt in store.attempts(job_id)] == ["r"] * (most - 1) + ["f"]
    called = store.rows("select task from job")
    assert called == ([] if declared is None else [{"task": "called"}])


def test_g6_max_crashes_of_a_step_is_that_of_the_step(store: Store) -> None:
    store.declare("order", max_crashes=9)
    store.declare("order/one", max_crashes=1)
    claim = store.held(store.register(lease=1), task="order", step="one")
    store.advance(1)
    assert store.rescue() == (0, 1)
    assert store.states(claim.id) == ["failed"]


@pytest.mark.parametrize(
    "options",
    [
        _options("x"),
        _options(-1),
        _options(2.5),
        _options(10**30),
        _options([1]),
        _options(None),
        {"retry": "never"},
        {"retry": [{"max_crashes": 1}]},
        [1],
        "text",
    ],
    ids=str,
)
def test_g8_hostile_options_do_not_stop_the_rescue(store: Store, options: Any) -> None:
    worker = store.register(lease=1)
    hostile, good = store.held(worker, queue="a"), store.held(worker, queue="b")
    hostile_row = codec.encode(options).decode()
    store.rows("update job set options = %s where id = %s returning 1", hostile_row, hostile.id)
    store.advance(1)
    assert store.rescue() == (2, 0), "and the default counts for the one"
    assert (store.row(hostile.id)["crashes"], store.row(good.id)["crashes"]) == (1, 1)


@pytest.mark.parametrize("kind", ["retry", "snooze", "advance"])
def test_g6_an_attempt_that_ends_clears_the_job_of_suspicion(store: Store, kind: Any) -> None:
    job_id = store.enqueue()
    assert _crash(store) == (1, 0)
    (claim,) = store.claim(store.register())
    assert store.settle(claim, kind)
    assert store.row(job_id)["crashes"] == 0


def test_g6_a_release_keeps_the_suspicion_and_a_crash_in_a_child_adds_to_it(store: Store) -> None:
    job_id = store.enqueue()
    assert _crash(store) == (1, 0)
    worker = store.register()
    (claim,) = store.claim(worker)
    store.settle(claim, "release")
    assert store.row(job_id)["crashes"] == 1
    (claim,) = store.claim(worker)
    assert store.settle(claim, "retry", crashed=True)
    row = store.row(job_id)
    assert (row["crashes"], row["attempt"]) == (2, 0)
    assert [attempt["attempt"] for attempt in store.attempts(job_id)] == [1, 1]


@pytest.mark.parametrize("how", ["registers again", "retires"])
def test_g6_a_worker_whose_process_survived_made_no_suspects(
    store: Store, worker: int, how: str
) -> None:
    claim = store.held(worker, max_attempts=1)
    if how == "registers again":
        store.advance(30)
        store.run(fleet.register("host:1", "0", 10, ["q"], [], 30, store.now, was=worker))
    else:
        store.run(fleet.retire(worker, store.now))
    (rescued,) = store.run(jobs.rescue(store.target, 9, store.now))
    assert (rescued.came_to, rescued.crashed) == ("r", False)
    row = store.row(claim.id)
    assert row == row | {"state": "r", "run_at": store.now, "attempt": 0, "crashes": 0, "claims": 1}
    (attempt,) = store.attempts(claim.id)
    assert (attempt["attempt"], attempt["error"]["type"]) == (1, "WorkerLost")


def test_g6_a_consumer_in_sql_that_lets_its_lease_run_out_has_spent_the_attempt(
    store: Store,
) -> None:
    job_id = store.enqueue(max_attempts=2)
    for ends in ((1, 0), (0, 1)):
        consumer = store.run(fleet.register("sql", "sql", 1, ["q"], [], 1, store.now))
        (claim,) = store.claim(consumer)
        store.advance(1)
        (rescued,) = store.run(jobs.rescue(store.target, 9, store.now))
        assert ((rescued.came_to == "r") + 0, (rescued.came_to == "f") + 0) == ends
        assert rescued.crashed is False
        if ends == (1, 0):
            row = store.row(job_id)
            assert row == row | {"state": "r", "attempt": 1, "crashes": 0, "run_at": store.now}
    row = store.archived(job_id)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("f", 2)
    assert [attempt["attempt"] for attempt in store.attempts(claim.id)] == [1, 2]


def test_a_job_that_was_asked_to_stop_ends_as_cancelled(store: Store, worker: int) -> None:
    claim = store.held(worker, max_attempts=5)
    store.cancel(claim.id)
    store.advance(30)
    assert store.rescue() == (0, 1)
    assert store.states(claim.id) == ["cancelled"]
    assert len(store.attempts(claim.id)) == 1


def test_a_live_workers_jobs_are_left_alone(store: Store, worker: int) -> None:
    store.held(worker)
    store.advance(29.999)
    before = store.everything()
    assert store.rescue() == (0, 0)
    assert store.everything() == before


def test_a_retired_workers_jobs_are_rescued_at_once(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.run(fleet.retire(worker, store.now))
    assert store.rescue() == (1, 0)
    assert store.states(claim.id) == ["ready"]


def test_g2_the_lost_worker_can_no_longer_settle(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.advance(30)
    store.rescue()
    before = store.everything()
    for kind in ("succeed", "fail", "cancel", "retry", "snooze", "release"):
        assert not store.settle(claim, kind)
    assert store.everything() == before


def test_g2_a_late_worker_that_settles_first_has_won(store: Store, worker: int) -> None:
    """Its claim was current to the end: the rescuer passes over what it is settling."""
    claim = store.held(worker)
    store.advance(30)
    finish = jobs.finish(store.target, [Settled(claim, verdict("succeed"))], store.now)
    with engine_connection(store.dsn) as conn, conn.transaction():
        assert store.run(finish, conn) == {}
        assert store.rescue() == (0, 0)
    assert store.states(claim.id) == ["succeeded"]
    assert store.rescue() == (0, 0)


def test_g2_a_late_worker_that_settles_second_has_lost(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.advance(30)
    finish = jobs.finish(store.target, [Settled(claim, verdict("succeed"))], store.now)
    with engine_connection(store.dsn) as conn, conn.transaction():
        assert store.rescue(10, conn) == (1, 0)
        assert store.run(finish) == {claim.id: "locked"}
    assert store.run(finish) == {claim.id: "lost"}
    assert store.states(claim.id) == ["scheduled"]


def test_two_rescuers_take_each_job_once(store: Store, worker: int) -> None:
    for _ in range(6):
        store.enqueue()
    assert len(store.claim(worker)) == 6
    store.advance(30)
    with engine_connection(store.dsn) as conn, conn.transaction():
        first = store.rescue(2, conn)
        second = store.rescue()
    assert (first, second) == ((2, 0), (4, 0))
    assert store.count("attempt") == 6


def test_the_limit_holds_for_each_lost_worker(store: Store) -> None:
    for _ in range(2):
        lost = store.register()
        for _ in range(3):
            store.enqueue()
        assert len(store.claim(lost)) == 3
    store.advance(30)
    assert store.rescue(2) == (4, 0)
    assert store.rescue(2) == (2, 0)


def test_one_sweep_may_end_some_and_send_others_round(store: Store, worker: int) -> None:
    again = [store.held(worker, queue="a") for _ in range(2)]
    ended = [store.held(worker, options=_options(1), queue="b") for _ in range(3)]
    for claim in ended:
        store.run(jobs.await_end(UUID(claim.id), store.now))
    store.advance(30)
    with store.listening(store.target.work_channel, store.target.done_channel) as heard:
        assert store.rescue() == (2, 3)
        spoken = heard()
    assert sorted(spoken) == sorted(["later", "failed", *(claim.id for claim in ended)])
    assert {store.states(claim.id)[0] for claim in again} == {"scheduled"}
    assert {store.states(claim.id)[0] for claim in ended} == {"failed"}
    assert store.count("awaited") == 0
    assert store.count("attempt") == 5


@pytest.mark.parametrize("progress", [None, {"percent": 50}])
def test_a_rescued_job_begins_anew(store: Store, worker: int, progress: object) -> None:
    claim = store.held(worker)
    if progress:
        store.run(jobs.progress([(claim, {"percent": 50})]))
    store.advance(30)
    store.rescue()
    row = store.live(claim.id)
    assert row is not None
    assert row["progress"] is None


def test_a_claim_under_way_when_the_lease_ran_out_is_found_by_the_next_round(
    store: Store, worker: int
) -> None:
    store.enqueue()
    with engine_connection(store.dsn) as conn, conn.transaction():
        (claim,) = store.run(jobs.claim(worker, shares([ask()], 1), store.now), conn)
        store.advance(30)
        assert store.rescue() == (0, 0)
    assert store.states(claim.id) == ["running"]
    assert store.rescue() == (1, 0)
