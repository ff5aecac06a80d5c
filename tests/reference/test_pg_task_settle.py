"""pg_task's tests of outcomes, P35 to P38 and P43 to P51: ending, retrying, failing, each fenced."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from headway import Context, Headway, Retry
from headway.core.verdict import Kind
from headway.errors import DatabaseError
from headway.store import jobs
from headway.store.jobs import Settled
from headway.store.link import Link
from headway.store.rows import Claim
from tests.reference.scenes import give_up, lose, refuse, rescue
from tests.store.store import NOW, Store, counted, verdict


def test_p35_a_finished_job_leaves_the_table_of_live_jobs(store: Store, worker: int) -> None:
    """pg_task: the row is deleted. Headway: it moves to the archive, with its input and result."""
    claim = store.held(worker, input={"number": 3})
    assert store.settle(claim, "succeed", result="done")
    assert store.live(claim.id) is None
    archived = store.archived(claim.id)
    assert archived is not None
    assert (archived["input"], archived["result"]) == ({"number": 3}, "done")


def test_p36_a_lost_claim_finishes_nothing(store: Store, worker: int) -> None:
    """pg_task: not deleted after losing the lease. Headway: nothing is written (G2)."""
    _writes_nothing(store, worker, "succeed")


def test_p37_between_the_leases_end_and_the_rescue_a_result_still_counts(
    store: Store, worker: int
) -> None:
    """pg_task: an expired lease writes nothing. Headway: the claim decides, and it is current until
    the rescue takes it: a result that is there first is kept, once."""
    claim = store.held(worker)
    store.advance(31)
    assert store.settle(claim, "succeed", result="just in time")
    assert rescue(store) == (0, 0)
    assert store.states(claim.id) == ["succeeded"]
    assert not store.settle(claim, "succeed", result="twice")


async def test_p38_an_error_while_finishing_surfaces_and_loses_nothing(
    store: Store, worker: int
) -> None:
    """pg_task: the database's error is returned. Headway: DatabaseError; the job is held as before."""
    await _surfaces(store, store.held(worker), "succeed", "archive_other", "insert")


def test_p43_a_failure_with_attempts_left_is_scheduled_again(store: Store, worker: int) -> None:
    """pg_task: tried + 1, wakeup_at in RETRY_DELAY. Headway: scheduled, by the policy's delay."""
    claim = store.held(worker)
    assert store.settle(claim, "retry", delay=4, error="no answer")
    row = store.live(claim.id)
    assert row is not None
    assert (row["state"], row["attempt"], row["worker_id"]) == ("s", 1, None)
    assert row["run_at"] == NOW + timedelta(seconds=4)


def test_p44_a_lost_claim_retries_nothing(store: Store, worker: int) -> None:
    """pg_task: not after losing the lease. Headway: nothing is written, no attempt row either."""
    _writes_nothing(store, worker, "retry")


async def test_p45_an_error_while_retrying_surfaces_and_loses_nothing(
    store: Store, worker: int
) -> None:
    """pg_task: the database's error is returned. Headway: DatabaseError; the job is held as before."""
    await _surfaces(store, store.held(worker), "retry", "job", "update")


async def test_p46_a_failure_at_the_limit_is_kept_with_its_error_and_its_causes(
    hw: Headway,
) -> None:
    """pg_task: error = the full chain of causes. Headway: type, message, traceback and chain (G7)."""

    @hw.task(retry=Retry(max_attempts=2, base=0))
    async def work() -> None:
        try:
            raise FileNotFoundError("name.txt")
        except FileNotFoundError as missing:
            raise RuntimeError("cannot read the name") from missing

    job = await work.enqueue()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt) == ("failed", 2)
    assert status.error is not None
    assert (status.error["type"], status.error["message"]) == (
        "RuntimeError",
        "cannot read the name",
    )
    assert status.error["chain"] == [{"type": "FileNotFoundError", "message": "name.txt"}]
    assert "raise RuntimeError" in status.error["traceback"]
    assert len(await job.attempts()) == 2


def test_p47_a_lost_claim_fails_nothing(store: Store, worker: int) -> None:
    """pg_task: not after losing the lease. Headway: nothing is written (G2)."""
    _writes_nothing(store, worker, "fail")


async def test_p48_an_error_while_failing_surfaces_and_loses_nothing(
    store: Store, worker: int
) -> None:
    """pg_task: the database's error is returned. Headway: DatabaseError; the job is held as before."""
    await _surfaces(store, store.held(worker), "fail", "attempt_other", "insert")


async def test_p49_what_cannot_be_stored_fails_its_job_and_no_other(hw: Headway) -> None:
    """pg_task: an unserialisable next step is saved as the error. Headway: an unserialisable result
    fails the job as InvalidResult, without another attempt: its effects have happened."""

    @hw.task
    async def work(good: bool) -> Any:
        return 1 if good else object()

    bad, good = await work.enqueue(good=False), await work.enqueue(good=True)
    await hw.run_until_idle()
    status = await bad.status()
    assert status.error is not None
    assert (status.state, status.attempt) == ("failed", 1)
    assert status.error["type"] == "InvalidResult"
    assert await good.result(timeout="60s") == 1


async def test_p50_the_note_about_what_cannot_be_stored_is_fenced_too(
    hw: Headway, store: Store, start: Any
) -> None:
    """pg_task: not saved after losing the lease. Headway: the verdict of a lost claim changes nothing."""

    runs: list[int] = []

    @hw.task(retry=Retry(base=0))
    async def work(ctx: Context) -> Any:
        runs.append(ctx.attempt)
        if len(runs) > 1:
            return "from the second run"
        # Its lease is over: the fleet takes the job back while this attempt goes on.
        give_up(store)
        return object()

    start(lease="6s")
    job = await work.enqueue()
    assert await job.result(timeout="60s") == "from the second run"
    assert runs == [1, 1], "who lost it may not have been at fault"
    (attempt,) = await job.attempts()
    assert attempt.error["type"] == "WorkerLost"


def test_p51_every_change_of_hands_has_its_moment(store: Store, worker: int) -> None:
    """pg_task: a trigger refreshes updated_at. Headway: created, claimed, due and finished each have
    a column of their own, and those of past attempts stay in their rows."""
    claim = store.held(worker)
    store.advance(10)
    store.settle(claim, "retry")
    store.advance(10)
    (again,) = store.claim(worker)
    row = store.live(claim.id)
    assert row is not None
    assert (row["created_at"], row["run_at"], row["claimed_at"]) == (
        NOW,
        NOW + timedelta(seconds=10),
        NOW + timedelta(seconds=20),
    )
    (attempt,) = store.attempts(claim.id)
    assert (attempt["started_at"], attempt["finished_at"]) == (NOW, NOW + timedelta(seconds=10))
    store.advance(5)
    store.settle(again, "succeed")
    archived = store.archived(claim.id)
    assert archived is not None
    assert archived["finished_at"] == NOW + timedelta(seconds=25)


def test_p46_a_failed_job_that_is_retried_has_fresh_attempts(store: Store, worker: int) -> None:
    """pg_task: clearing `error` leaves `tried` as it was. Headway: attempts start anew, the claim
    number does not, and the rows of the old attempts stay."""
    claim = store.held(worker, max_attempts=1)
    store.settle(claim, "fail")
    assert store.run(jobs.revive(store.target, UUID(claim.id), None, store.now))
    (again,) = store.claim(worker)
    assert (again.attempt, counted(again)) == (1, 2)
    assert len(store.attempts(claim.id)) == 1


def _writes_nothing(store: Store, worker: int, kind: Kind) -> None:
    claim = store.held(worker)
    other = lose(store)
    (new,) = store.claim(other)
    before = store.everything()
    assert not store.settle(claim, kind)
    assert store.everything() == before
    assert store.settle(new, "succeed")


async def _surfaces(store: Store, claim: Claim, kind: Kind, table: str, event: str) -> None:
    """Settling as `kind` while the server refuses `event` on `table` raises and changes nothing."""
    refuse(store, table, event)
    settled = [Settled(claim, verdict(kind))]
    move = (
        jobs.requeue(store.target, 0, settled, store.now)
        if kind == "retry"
        else jobs.finish(store.target, settled, store.now)
    )
    before, link = store.everything(), Link(store.target)
    with pytest.raises(DatabaseError, match="not today"):
        await link.run(move)
    assert store.everything() == before
    await link.close()
