"""rescue.sql: the jobs of workers that were lost (G3, G6)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from headway.store import fleet, jobs
from headway.store.jobs import Settled
from tests.store.aside import Aside
from tests.store.store import NOW, Store, ask, engine_connection, shares, verdict


def _rescue(store: Store, limit: int = 100) -> tuple[int, int]:
    return store.run(jobs.rescue(store.target, limit, store.now))


def test_g3_the_jobs_of_a_lost_worker_run_again(store: Store, worker: int) -> None:
    claim = store.held(worker)
    between = store.enqueue()
    store.advance(30)
    assert _rescue(store) == (1, 0)
    row, other = store.live(claim.id), store.live(between)
    assert row is not None
    assert other is not None
    assert (row["state"], row["worker_id"], row["run_at"]) == ("r", None, store.now)
    assert row["seq"] > other["seq"], "at the tail: it has had its turn"
    assert (row["attempt"], row["claim"]) == (1, 1)
    claims = {claim.id: claim for claim in store.claim(store.register())}
    assert (claims[claim.id].number, claims[claim.id].attempt) == (2, 2)


def test_g6_a_crash_counts_and_is_on_record(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.advance(45)
    _rescue(store)
    (attempt,) = store.attempts(claim.id)
    assert attempt == attempt | {
        "worker_id": worker,
        "claim": 1,
        "attempt": 1,
        "started_at": NOW,
        "finished_at": NOW + timedelta(seconds=45),
    }
    assert attempt["error"]["type"] == "WorkerLost"
    assert "host:1" in attempt["error"]["message"]


def test_g6_a_job_that_kills_its_worker_fails_after_its_last_attempt(store: Store) -> None:
    job_id = store.enqueue(max_attempts=2, input={"k": 1})
    for ends in ((1, 0), (0, 1)):
        assert len(store.claim(store.register())) == 1
        store.advance(30)
        assert _rescue(store) == ends
    row = store.archived(job_id)
    assert row is not None
    assert (row["state"], row["attempt"], row["input"]) == ("f", 2, {"k": 1})
    assert row["error"]["type"] == "WorkerLost"
    assert [attempt["attempt"] for attempt in store.attempts(job_id)] == [1, 2]


def test_a_job_that_was_asked_to_stop_ends_as_cancelled(store: Store, worker: int) -> None:
    claim = store.held(worker, max_attempts=5)
    store.run(jobs.cancel(store.target, UUID(claim.id), store.now))
    store.advance(30)
    assert _rescue(store) == (0, 1)
    assert store.states(claim.id) == ["cancelled"]
    assert len(store.attempts(claim.id)) == 1


def test_a_live_workers_jobs_are_left_alone(store: Store, worker: int) -> None:
    store.held(worker)
    store.advance(29.999)
    before = store.everything()
    assert _rescue(store) == (0, 0)
    assert store.everything() == before


def test_a_retired_workers_jobs_are_rescued_at_once(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.run(fleet.retire(worker, store.now))
    assert _rescue(store) == (1, 0)
    assert store.states(claim.id) == ["ready"]


def test_g2_the_lost_worker_can_no_longer_settle(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.advance(30)
    _rescue(store)
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
        assert store.run(finish, conn) == []
        assert _rescue(store) == (0, 0)
    assert store.states(claim.id) == ["succeeded"]
    assert _rescue(store) == (0, 0)


def test_g2_a_late_worker_that_settles_second_has_lost(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.advance(30)
    finish = jobs.finish(store.target, [Settled(claim, verdict("succeed"))], store.now)
    with engine_connection(store.dsn) as conn, conn.transaction():
        assert store.run(jobs.rescue(store.target, 10, store.now), conn) == (1, 0)
        late = Aside(store, finish).wait_until_it_waits()
    assert late.answer() == [claim.id]
    assert store.states(claim.id) == ["ready"]


def test_two_rescuers_take_each_job_once(store: Store, worker: int) -> None:
    for _ in range(6):
        store.enqueue()
    assert len(store.claim(worker)) == 6
    store.advance(30)
    with engine_connection(store.dsn) as conn, conn.transaction():
        first = store.run(jobs.rescue(store.target, 2, store.now), conn)
        second = _rescue(store)
    assert (first, second) == ((2, 0), (4, 0))
    assert store.count("attempt") == 6


def test_the_limit_holds_for_each_lost_worker(store: Store) -> None:
    for _ in range(2):
        lost = store.register()
        for _ in range(3):
            store.enqueue()
        assert len(store.claim(lost)) == 3
    store.advance(30)
    assert _rescue(store, limit=2) == (4, 0)
    assert _rescue(store, limit=2) == (2, 0)


def test_one_sweep_may_end_some_and_send_others_round(store: Store, worker: int) -> None:
    again = [store.held(worker, max_attempts=2, queue="a") for _ in range(2)]
    ended = [store.held(worker, max_attempts=1, queue="b") for _ in range(3)]
    for claim in ended:
        store.run(jobs.await_end(UUID(claim.id), store.now))
    store.advance(30)
    with store.listening(store.target.work_channel, store.target.done_channel) as heard:
        assert _rescue(store) == (2, 3)
        spoken = heard()
    assert sorted(spoken) == sorted(["ready 0 a", "failed", *(claim.id for claim in ended)])
    assert {store.states(claim.id)[0] for claim in again} == {"ready"}
    assert {store.states(claim.id)[0] for claim in ended} == {"failed"}
    assert store.count("awaited") == 0
    assert store.count("attempt") == 5


@pytest.mark.parametrize("progress", [None, {"percent": 50}])
def test_a_rescued_job_begins_anew(store: Store, worker: int, progress: object) -> None:
    claim = store.held(worker)
    if progress:
        store.run(jobs.progress([(claim, {"percent": 50})]))
    store.advance(30)
    _rescue(store)
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
        assert _rescue(store) == (0, 0)
    assert store.states(claim.id) == ["running"]
    assert _rescue(store) == (1, 0)
