"""Underway's tests of ends and attempts, U25 to U29 and U36 to U44: states, rows, fences."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from headway.core.verdict import Kind
from headway.store import jobs
from headway.store.rows import Claim
from tests.reference.scenes import ONE_CRASH, lose, promote, rescue
from tests.store.store import NOW, Store, counted

FINAL: dict[Kind, str] = {"cancel": "cancelled", "succeed": "succeeded", "fail": "failed"}


def _ended(store: Store, worker: int, kind: Kind) -> Claim:
    claim = store.held(worker)
    store.advance(2)
    if kind == "cancel":
        assert store.cancel(claim.id) == "asked"
    assert store.settle(claim, kind)
    assert store.states(claim.id) == [FINAL[kind]]
    return claim


def test_u25_a_job_can_be_marked_cancelled(store: Store, worker: int) -> None:
    """Underway: state is cancelled. Headway: the same, in the archive."""
    _ended(store, worker, "cancel")


def test_u26_a_job_can_be_marked_succeeded(store: Store, worker: int) -> None:
    """Underway: state is succeeded, nothing of the output is kept. Headway: with its result."""
    claim = store.held(worker)
    assert store.settle(claim, "succeed", result={"sent": 3})
    assert store.states(claim.id) == ["succeeded"]
    archived = store.archived(claim.id)
    assert archived is not None
    assert archived["result"] == {"sent": 3}


def test_u27_a_job_can_be_marked_failed(store: Store, worker: int) -> None:
    """Underway: state is failed. Headway: the same, in the archive, with its error."""
    claim = _ended(store, worker, "fail")
    archived = store.archived(claim.id)
    assert archived is not None
    assert archived["error"]["message"] == "fail"


def test_u28_a_failure_stores_its_message_with_the_attempt(store: Store, worker: int) -> None:
    """Underway: message on the attempt, retries 1. Headway: an attempt row with the error."""
    claim = store.held(worker)
    store.settle(claim, "retry", error="no answer", delay=5)
    (attempt,) = store.attempts(claim.id)
    assert (attempt["attempt"], attempt["error"]["message"]) == (1, "no answer")


def test_u29_a_job_that_failed_for_good_leaves_the_queue_and_keeps_its_story(
    store: Store, worker: int
) -> None:
    """Underway: moved to a dead-letter queue. Headway: to the archive, whole, and it can come back."""
    claim = store.held(worker, input={"number": 3})
    store.settle(claim, "fail")
    assert store.live(claim.id) is None
    archived = store.archived(claim.id)
    assert archived is not None
    assert (archived["queue"], archived["input"]) == ("q", {"number": 3})
    assert len(store.attempts(claim.id)) == 1
    assert store.run(jobs.revive(store.target, UUID(claim.id), None, store.now))
    assert store.states(claim.id) == ["ready"]


def test_u36_a_success_has_its_moments(store: Store, worker: int) -> None:
    """Underway: attempt succeeded, completed_at set. Headway: in the archive; no attempt row."""
    claim = _ended(store, worker, "succeed")
    archived = store.archived(claim.id)
    assert archived is not None
    assert (archived["started_at"], archived["finished_at"]) == (NOW, NOW + timedelta(seconds=2))
    assert store.attempts(claim.id) == []


def test_u37_a_failure_has_an_attempt_row(store: Store, worker: int) -> None:
    """Underway: attempt failed, completed_at on both rows. Headway: the same moments and error."""
    _has_an_attempt_row(store, worker, "fail")


def test_u38_a_cancellation_has_an_attempt_row(store: Store, worker: int) -> None:
    """Underway: attempt cancelled, completed_at on both rows. Headway: the same moments."""
    _has_an_attempt_row(store, worker, "cancel")


def _has_an_attempt_row(store: Store, worker: int, kind: Kind) -> None:
    claim = _ended(store, worker, kind)
    archived = store.archived(claim.id)
    (attempt,) = store.attempts(claim.id)
    assert archived is not None
    assert archived["finished_at"] == attempt["finished_at"] == NOW + timedelta(seconds=2)
    assert (attempt["started_at"], attempt["worker_id"]) == (NOW, worker)
    assert attempt["error"] == archived["error"]


def test_u39_each_round_adds_one_attempt(store: Store, worker: int) -> None:
    """Underway: failed, failed, in_progress. Headway: a row for each failure, the third running."""
    claim = store.held(worker)
    for number in (1, 2):
        assert claim.attempt == number
        store.settle(claim, "retry", error=f"failure {number}")
        (claim,) = store.claim(worker)
    rows = store.attempts(claim.id)
    assert [(row["attempt"], row["error"]["message"]) for row in rows] == [
        (1, "failure 1"),
        (2, "failure 2"),
    ]
    assert (claim.attempt, store.states(claim.id)) == (3, ["running"])


def test_u40_a_job_is_taken_back_when_its_lease_has_run_out_and_not_before(
    store: Store, worker: int
) -> None:
    """Underway: a stale task is dequeued, its attempt failed. Headway: rescued, with an attempt row, and
    the attempt is given back: the job need not have caused the loss."""
    claim = store.held(worker)
    store.advance(29)
    assert rescue(store) == (0, 0)
    assert store.states(claim.id) == ["running"]
    store.advance(1)
    assert rescue(store) == (1, 0)
    store.advance(1)
    assert promote(store).count == 1
    (again,) = store.claim(store.register())
    assert (again.id, again.attempt, again.crashes) == (claim.id, 1, 1)
    (attempt,) = store.attempts(claim.id)
    assert (attempt["attempt"], attempt["error"]["type"]) == (1, "WorkerLost")


def test_u41_the_last_crash_fails_the_job(store: Store, worker: int) -> None:
    """Underway: terminal failed at the next dequeue. Headway: at the next rescue (G6)."""
    claim = store.held(worker, **ONE_CRASH)
    store.advance(30)
    assert rescue(store) == (0, 1)
    assert store.states(claim.id) == ["failed"]
    assert store.claim(store.register()) == []


def test_u42_a_job_lost_for_good_says_so_in_the_archive(store: Store, worker: int) -> None:
    """Underway: moved to the dead-letter queue, failed. Headway: archived under its own queue."""
    claim = store.held(worker, **ONE_CRASH)
    lose(store)
    archived = store.archived(claim.id)
    assert archived is not None
    assert (archived["state"], archived["queue"]) == ("f", "q")
    assert archived["error"]["type"] == "WorkerLost"
    assert len(store.attempts(claim.id)) == 1


def test_u43_a_late_success_does_not_change_a_job_that_was_lost_for_good(
    store: Store, worker: int
) -> None:
    """Underway: TaskNotFound, state stays failed. Headway: reported lost, nothing written (G2)."""
    claim = store.held(worker, **ONE_CRASH)
    lose(store)
    before = store.everything()
    assert not store.settle(claim, "succeed", result=1)
    assert store.everything() == before


@pytest.mark.parametrize("kind", ["succeed", "fail", "cancel", "retry", "snooze", "release"])
def test_u44_no_write_with_an_old_claim_touches_the_row(
    store: Store, worker: int, kind: Kind
) -> None:
    """Underway: an old attempt number updates 0 rows. Headway: an old claim number, of any write."""
    old = store.held(worker)
    (new,) = store.claim(lose(store))
    before = store.everything()
    assert not store.settle(old, kind)
    assert store.run(jobs.progress([(old, {"percent": 50})])) == 0
    assert store.everything() == before
    assert (new.id, counted(new), store.states(new.id)) == (old.id, 2, ["running"])
