"""The behaviours (U) and defects (UD) of underway that no other folder proves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import psycopg

from headway import Headway, Retry
from headway.core.clock import monotonic
from headway.core.verdict import Kind
from headway.engine.service import Service
from headway.errors import DatabaseUnavailable
from headway.store.rows import Claim
from tests.reference.scenes import OURS, backends
from tests.store.store import NOW, Store
from tests.support import DEADLINE, eventually


async def test_u12_a_tasks_own_delay_is_that_of_calls_without_one(hw: Headway) -> None:
    """Underway: the task's delay is stored. Headway: the same, unless the call says otherwise."""

    @hw.task(delay="1h")
    async def work() -> None: ...

    own, given = [await job.enqueue() for job in (work, work.using(delay="2h"))]
    waits = [(status := await job.status()).run_at - status.created_at for job in (own, given)]
    assert waits == [timedelta(hours=1), timedelta(hours=2)]


async def test_ud2_handlers_hold_neither_a_transaction_nor_a_connection(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """Underway: both, for as long as a task runs. Headway: fifty handlers, five connections."""
    running, release = asyncio.Semaphore(0), asyncio.Event()

    @hw.task
    async def work() -> None:
        running.release()
        await release.wait()

    start(concurrency=50)
    for _ in await work.enqueue_many([{} for _ in range(50)]):
        await asyncio.wait_for(running.acquire(), DEADLINE)
    now = db.execute("select clock_timestamp()::text").fetchone()
    assert now is not None
    older = f"{OURS} and xact_start < '{now[0]}'"
    await eventually(lambda: not backends(db, "headway%", older))
    assert len(backends(db, "headway worker %", OURS)) < 10
    release.set()


async def test_ud10_a_loop_that_meets_errors_waits_longer_each_time() -> None:
    """Underway: the loop goes on at once, without end. Headway: a pause that doubles."""
    turns: list[float] = []
    enough = asyncio.Event()

    class Unlucky(Service):
        async def turn(self) -> float | None:
            turns.append(monotonic())
            if len(turns) == 4:
                enough.set()
            raise DatabaseUnavailable("no answer")

    unlucky = Unlucky()
    unlucky.start()
    await asyncio.wait_for(enough.wait(), DEADLINE)
    await unlucky.stop()
    pauses = [after - before for before, after in pairwise(turns)]
    # Chance takes up to a half off each; the clock may be a moment ahead.
    assert all(pause > least for pause, least in zip(pauses, (0.04, 0.09, 0.19), strict=True))


FINAL: dict[Kind, str] = {"cancel": "cancelled", "succeed": "succeeded", "fail": "failed"}


def _ended(store: Store, worker: int, kind: Kind) -> Claim:
    claim = store.held(worker)
    store.advance(2)
    if kind == "cancel":
        assert store.cancel(claim.id) == "asked"
    assert store.settle(claim, kind)
    assert store.states(claim.id) == [FINAL[kind]]
    return claim


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


def test_u3_the_short_policy_is_five_attempts_doubling_from_a_second_to_a_minute() -> None:
    """Underway: 5, 1 s, 1 min, factor 2, jitter a half. Headway: the same numbers, by Retry.quick()."""
    short = Retry.quick()
    assert (short.max_attempts, short.jitter) == (5, 0.5)
    steady = replace(short, jitter=0)
    assert [steady.delay(attempt, chance=0) for attempt in range(1, 9)] == [
        1, 2, 4, 8, 16, 32, 60, 60,
    ]  # fmt: skip
    assert (short.delay(4, chance=0), short.delay(4, chance=1)) == (4, 8)


async def test_u50_finished_jobs_leave_nothing_behind_in_the_process(
    hw: Headway, start: Any
) -> None:
    """Underway: finished handles are reaped. Headway: the worker holds what runs, and nothing else."""

    @hw.task
    async def work(number: int) -> int:
        return number

    worker = start()
    before: set[asyncio.Task[Any]] = set()
    for _ in range(2):
        made = await work.enqueue_many([{"number": number} for number in range(300)])
        for job in made:
            await job.result(timeout="60s")
        await worker.worker._running.executor.idle()
        before = before or asyncio.all_tasks()
    assert worker.worker._running.executor.running == {}
    assert worker.worker._running.executor.free() == 100
    assert {task.get_name() for task in asyncio.all_tasks()} <= {task.get_name() for task in before}
