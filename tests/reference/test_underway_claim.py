"""Underway's tests of a queue, U19 to U24: taking a task, and sending it round again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

from headway.store import jobs
from tests.reference.scenes import promote
from tests.store.store import NOW, Store, ask, counted, engine_connection, shares


def test_u19_a_claim_brings_all_that_is_needed_to_run_the_job(store: Store, worker: int) -> None:
    """Underway: id, input, policy; row in_progress, retries 0. Headway: the same, attempt 1."""
    job_id = store.enqueue(input={"number": 3}, headers={"trace": "a"}, options={"timeout": 5})
    (claim,) = store.claim(worker)
    assert (claim.id, counted(claim)) == (str(job_id), 1)
    assert (claim.attempt, claim.max_attempts) == (1, 3)
    assert (claim.input, claim.headers, claim.options) == (
        '{"number": 3}',
        '{"trace": "a"}',
        '{"timeout": 5}',
    )
    row = store.live(job_id)
    assert row is not None
    assert (row["state"], row["worker_id"], row["claimed_at"]) == ("x", worker, NOW)


def test_u20_five_concurrent_claims_get_five_distinct_jobs(store: Store, worker: int) -> None:
    """Underway: five dequeues at once give five tasks. Headway: five claims give five jobs."""
    made = {str(store.enqueue()) for _ in range(5)}
    together = Barrier(5)

    def claim(_: int) -> list[str]:
        with engine_connection(store.dsn) as conn:
            together.wait()
            claimed = store.run(jobs.claim(worker, shares([ask()], 1), store.now), conn)
        return [claim.id for claim in claimed]

    with ThreadPoolExecutor(5) as threads:
        claimed = list(threads.map(claim, range(5)))
    assert [len(ids) for ids in claimed] == [1] * 5
    assert {ids[0] for ids in claimed} == made


def test_u21_an_empty_queue_gives_nothing(store: Store, worker: int) -> None:
    """Underway: None. Headway: no claims."""
    store.enqueue(queue="another")
    assert store.claim(worker) == []


def test_u22_an_attempt_is_counted_when_it_is_claimed(store: Store, worker: int) -> None:
    """Underway: the dequeue inserts an attempt row. Headway: it counts; a row is for a failure."""
    claim = store.held(worker)
    row = store.live(claim.id)
    assert row is not None
    assert row["attempt"] == 1
    assert store.attempts(claim.id) == []


def test_u23_a_retry_waits_as_scheduled(store: Store, worker: int) -> None:
    """Underway: pending, with the delay, retries 1. Headway: scheduled for that moment, attempt 1."""
    claim = store.held(worker)
    assert store.settle(claim, "retry", delay=60)
    row = store.live(claim.id)
    assert row is not None
    assert (row["state"], row["attempt"], row["worker_id"]) == ("s", 1, None)
    assert row["run_at"] == NOW + timedelta(minutes=1)


def test_u24_a_retrys_delay_is_kept(store: Store, worker: int) -> None:
    """Underway: not dequeued before its time, and then it is. Headway: the same, by promotion."""
    claim = store.held(worker)
    store.settle(claim, "retry", delay=30 * 60)
    store.advance(30 * 60 - 1)
    worker = store.register()
    assert promote(store).count == 0
    assert store.claim(worker) == []
    store.advance(1)
    assert promote(store).count == 1
    (again,) = store.claim(worker)
    assert (again.id, again.attempt) == (claim.id, 2)
