"""pg_task's tests of a row, P18 to P34: what is due, claiming it, leases, when the next one is due.

pg_task keeps a lease in each row and computes availability from it. In Headway a worker has the
lease, rows name their worker, and what cannot run now is in another state: `promote` and `rescue`
make it ready.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway import Headway
from headway.errors import DatabaseError, SchemaMismatch
from headway.store import fleet, jobs
from headway.store.jobs import Settled
from headway.store.link import Link
from headway.store.rows import Promotion
from tests.reference.scenes import lose, promote, refuse, rescue
from tests.store.store import NOW, Store, ask, shares, verdict


def test_p18_what_is_overdue_is_not_waited_for(store: Store) -> None:
    """pg_task: no delay for a past moment. Headway: it is promoted, and there is no next moment."""
    store.enqueue(delay=60)
    store.advance(3600)
    promoted = promote(store)
    assert (promoted.count, promoted.next_due_in) == (1, None)


def test_p19_what_is_due_later_says_in_how_long(store: Store) -> None:
    """pg_task: the duration until a future moment. Headway: the promoter is told it, in seconds."""
    store.enqueue(delay=60)
    store.advance(20)
    promoted = promote(store)
    assert (promoted.count, promoted.next_due_in) == (0, 40.0)


async def test_p20_input_that_does_not_fit_fails_its_job_at_once(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """pg_task: error stored, no lease, tried unchanged. Headway: failed, InvalidInput, one attempt."""

    @hw.task
    async def work(number: int) -> int:
        return number

    bad, good = await work.enqueue(1), await work.enqueue(2)
    db.execute("update job set input = %s where id = %s", ('{"number": "one"}', bad.id))
    await hw.run_until_idle()
    status = await bad.status()
    assert status.error is not None
    assert (status.state, status.error["type"], status.attempt) == ("failed", "InvalidInput", 1)
    assert status.input == {"number": "one"}
    assert await good.result(timeout="60s") == 2


async def test_p21_an_error_while_looking_for_work_surfaces(store: Store, worker: int) -> None:
    """pg_task: fetch returns the error. Headway: SchemaMismatch where the table is gone."""
    store.eyes.execute("alter table job rename to elsewhere")
    link = Link(store.target)
    with pytest.raises(SchemaMismatch, match="job"):
        await link.run(jobs.claim(worker, shares([ask()], 1), store.now))
    await link.close()


async def test_p22_an_error_while_claiming_surfaces_and_claims_nothing(
    store: Store, worker: int
) -> None:
    """pg_task: setting the lease returns the error. Headway: DatabaseError; the job stays ready."""
    job_id = store.enqueue()
    refuse(store, "job", "update")
    link = Link(store.target)
    with pytest.raises(DatabaseError, match="not today"):
        await link.run(jobs.claim(worker, shares([ask()], 1), store.now))
    assert store.states(job_id) == ["ready"]
    await link.close()


async def test_p23_an_error_while_storing_a_failure_surfaces_and_loses_nothing(
    store: Store, worker: int
) -> None:
    """pg_task: saving a parse error returns it. Headway: DatabaseError; the job is held as before."""
    claim = store.held(worker)
    refuse(store, "archive_other", "insert")
    link = Link(store.target)
    with pytest.raises(DatabaseError, match="not today"):
        await link.run(jobs.finish(store.target, [Settled(claim, verdict("fail"))], store.now))
    assert store.states(claim.id) == ["running"]
    assert store.attempts(claim.id) == []
    await link.close()


def test_p24_a_claim_names_its_holder(store: Store, worker: int) -> None:
    """pg_task: locked_by and lock_expires_at are set. Headway: the row names a worker, who leases."""
    claim = store.held(worker)
    holder = store.one(
        "select w.id, w.expires_at from job j join worker w on w.id = j.worker_id where j.id = %s",
        claim.id,
    )
    assert holder == {"id": worker, "expires_at": NOW + timedelta(seconds=30)}


@pytest.mark.parametrize(
    "change", ["state = 'x'", "worker_id = 1", "state = 'x', worker_id = null", "state = 'q'"]
)
def test_p25_a_row_names_a_worker_if_and_only_if_it_runs(store: Store, change: str) -> None:
    """pg_task: a CHECK ties both lease columns. Headway: one ties state and worker (I2)."""
    store.enqueue()
    with pytest.raises(psycopg.errors.CheckViolation):
        store.eyes.execute(sql.SQL(f"update job set {change}"))


def test_p26_a_heartbeat_extends_a_live_lease_of_its_own_alone(store: Store, worker: int) -> None:
    """pg_task: renews live leases of this worker. Headway: the one row that all its jobs hang on."""
    other = store.register(lease=60)
    store.advance(20)
    assert store.run(fleet.heartbeat(worker, 30, store.now)) is not None
    rows = store.rows("select id, expires_at from worker order by id")
    assert [(row["id"], row["expires_at"]) for row in rows] == [
        (worker, NOW + timedelta(seconds=50)),
        (other, NOW + timedelta(seconds=60)),
    ]


def test_p27_a_lease_that_has_run_out_is_not_extended(store: Store, worker: int) -> None:
    """pg_task: none live, zero renewed. Headway: told that it is too late; it must begin anew."""
    store.advance(30)
    before = store.everything()
    assert store.run(fleet.heartbeat(worker, 30, store.now)) is None
    assert store.everything() == before


def test_p28_claim_ignores_held_failed_and_future_jobs_and_takes_the_earliest(
    store: Store, worker: int
) -> None:
    """pg_task: skips leased, errored and future tasks. Headway: none of them is in the ready index."""
    store.held(worker)
    failed = store.held(worker)
    store.settle(failed, "fail")
    store.enqueue(delay=60)
    first, second = store.enqueue(), store.enqueue()
    assert [claim.id for claim in store.claim(worker, room=1)] == [str(first)]
    assert [claim.id for claim in store.claim(worker)] == [str(second)]


def test_p29_a_job_whose_lease_ran_out_is_there_again(store: Store, worker: int) -> None:
    """pg_task: an expired lease makes it available. Headway: rescue makes it ready."""
    claim = store.held(worker)
    other = lose(store)
    assert [again.id for again in store.claim(other)] == [claim.id]


def test_p30_nothing_ready_is_no_claim(store: Store, worker: int) -> None:
    """pg_task: None. Headway: no claims, nothing written."""
    store.held(worker)
    store.enqueue(delay=60)
    before = store.everything()
    assert store.claim(worker) == []
    assert store.everything() == before


def test_p31_without_scheduled_jobs_there_is_no_next_moment(store: Store, worker: int) -> None:
    """pg_task: no next availability. Headway: none; the promoter sleeps until it is told."""
    store.held(worker)
    store.enqueue()
    assert promote(store) == Promotion(0, None, None)


def test_p32_the_next_moment_is_that_of_the_earliest(store: Store) -> None:
    """pg_task: the earliest wakeup_at. Headway: the earliest run_at of what is scheduled."""
    for delay in (300, 120, 600):
        store.enqueue(delay=delay)
    assert promote(store).next_due_in == 120


async def test_p32_a_worker_sleeps_until_the_next_moment(hw: Headway, start: Any) -> None:
    """pg_task: sleeps exactly until then, without a poll. Headway: the same, whatever its poll is."""

    @hw.task
    async def work() -> str:
        return "done"

    start(poll="1h")
    await (await work.enqueue()).result(timeout="60s")
    later = await work.using(delay=0.2).enqueue()
    assert await later.result(timeout="60s") == "done"
    status = await later.status()
    assert status.started_at is not None
    assert status.started_at >= status.run_at


async def test_p33_a_lost_workers_jobs_are_taken_over_when_its_lease_ends(
    hw: Headway, store: Store, start: Any, db: psycopg.Connection[Any]
) -> None:
    """pg_task: sleeps until the lease's end. Headway: whoever has the duty sweeps, at that pace."""

    @hw.task
    async def work() -> str:
        return "done"

    lost = store.run(fleet.register("gone", "0", 1, ["default"], ["work"], 1.5, None))
    job = await work.enqueue()
    assert store.run(jobs.claim(lost, shares([ask("default", tasks=["work"])], 1), None))
    start(lease="3s", poll="1h")
    assert await job.result(timeout="60s") == "done"
    (attempt,) = await job.attempts()
    assert (attempt.worker, attempt.error["type"]) == (lost, "WorkerLost")


def test_p34_a_lease_that_ends_does_not_hurry_what_is_due_later(store: Store, worker: int) -> None:
    """pg_task: the later of wake-up and expiry. Headway: what waits has no holder; its moment holds."""
    claim = store.held(worker)
    store.settle(claim, "retry", delay=3600)
    store.advance(60)
    assert rescue(store) == (0, 0)
    assert promote(store).next_due_in == 3540
    assert store.states(claim.id) == ["scheduled"]
