"""cancel.sql: a waiting job ends at once, a running one is asked to stop."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

from headway.store.statements import jobs
from tests.store.store import NOW, Store


def _cancel(store: Store, job_id: UUID | str) -> str | None:
    return store.cancel(job_id)


def test_a_cancelled_job_is_archived_with_its_input(store: Store) -> None:
    job_id = store.enqueue(input={"x": 1}, headers={"h": "v"}, delay=60.0, ttl=99.0)
    store.advance(5)
    assert _cancel(store, job_id) == "cancelled"
    row = store.archived(job_id)
    assert row is not None
    assert row == row | {
        "state": "c",
        "input": {"x": 1},
        "headers": {"h": "v"},
        "run_at": NOW + timedelta(seconds=60),
        "expires_at": NOW + timedelta(seconds=99),
        "finished_at": NOW + timedelta(seconds=5),
        "started_at": None,
        "worker_id": None,
        "attempt": 0,
        "claims": 0,
    }
    assert row["error"]["type"] == "Cancelled"
    assert store.attempts(job_id) == [], "no attempt was under way"


def test_the_worker_of_a_running_job_is_notified_by_its_id(store: Store, worker: int) -> None:
    claim = store.held(worker)
    with store.listening() as heard:
        assert _cancel(store, claim.id) == "asked"
        assert heard() == [f"cancel {claim.id}"]
    assert store.run(jobs.held([claim])) == {claim.id: True}


def test_a_caller_that_waits_for_a_cancelled_job_is_notified(store: Store) -> None:
    job_id = store.enqueue()
    store.run(jobs.await_end(job_id, store.now))
    with store.listening(store.target.done_channel) as heard:
        assert _cancel(store, job_id) == "cancelled"
        assert heard() == [str(job_id)]
    assert store.count("awaited") == 0


def test_asking_a_running_job_to_stop_ends_no_wait(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.run(jobs.await_end(UUID(claim.id), store.now))
    with store.listening(store.target.done_channel) as heard:
        _cancel(store, claim.id)
        assert heard() == []
    assert store.count("awaited") == 1


def test_asking_twice_changes_nothing_more(store: Store, worker: int) -> None:
    claim = store.held(worker)
    assert [_cancel(store, claim.id), _cancel(store, claim.id)] == ["asked", "asked"]
    assert store.count("stop_request") == 1
    assert store.run(jobs.held([claim])) == {claim.id: True}


def test_many_may_wait_for_one_job(store: Store) -> None:
    job_id = store.enqueue()
    assert store.run(jobs.await_end(job_id, store.now)) is True
    store.run(jobs.await_end(job_id, store.now))
    assert store.count("awaited") == 1
    assert store.run(jobs.await_end(uuid4(), store.now)) is False
    assert store.count("awaited") == 1
