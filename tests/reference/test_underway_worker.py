"""Underway's tests of a worker, U45 to U50: running, retrying, stopping, beating, fencing."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from headway import Context, Headway, Retry
from tests.reference.scenes import lose
from tests.store.store import Store, counted
from tests.support import eventually


async def test_u45_a_job_is_processed_and_the_queue_is_empty(hw: Headway) -> None:
    """Underway: processed, succeeded, then nothing is left. Headway: the same."""

    @hw.task
    async def work() -> None: ...

    job = await work.enqueue()
    assert (await hw.run_until_idle()).settled == {"succeed": 1}
    assert (await job.status()).state == "succeeded"
    assert await hw.queues.list() == []
    assert (await hw.run_until_idle()).total == 0


async def test_u46_a_job_that_fails_twice_succeeds_at_the_third_attempt(hw: Headway) -> None:
    """Underway: three processings, finally succeeded. Headway: the same."""

    @hw.task(retry=Retry(base=0))
    async def work(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise RuntimeError(f"failure {ctx.attempt}")
        return ctx.attempt

    job = await work.enqueue()
    assert (await hw.run_until_idle()).settled == {"retry": 2, "succeed": 1}
    assert await job.result(timeout="60s") == 3
    assert [attempt.attempt for attempt in await job.attempts()] == [1, 2]


async def test_u47_a_stop_lets_what_runs_finish_and_starts_nothing_more(
    hw: Headway, start: Any
) -> None:
    """Underway: 5 running tasks of 2 workers finish, a later one is left. Headway: the same (G11)."""
    running, release = asyncio.Semaphore(0), asyncio.Event()

    @hw.task
    async def work() -> None:
        running.release()
        await release.wait()

    workers = [start(concurrency=3, grace="30s") for _ in range(2)]
    held = await work.enqueue_many([{} for _ in range(5)])
    for _ in held:
        await running.acquire()
    stopping = [asyncio.create_task(worker.stop()) for worker in workers]
    await asyncio.sleep(0)
    late = await work.enqueue()
    release.set()
    reports = await asyncio.gather(*stopping)
    assert [(await job.status()).state for job in held] == ["succeeded"] * 5
    assert sum(report.settled["succeed"] for report in reports) == 5
    # Should a claim that was under way have taken it, it went back and its attempt with it.
    left = await late.status()
    assert (left.state, left.attempt) == ("ready", 0)


async def test_u48_a_worker_beats_while_it_lives_and_not_after(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """Underway: a task's beat rises while it runs. Headway: the worker's does until it signs off."""
    release = asyncio.Event()

    @hw.task
    async def work() -> None:
        await release.wait()

    def beats() -> tuple[Any, ...] | None:
        return db.execute("select seen_at, expires_at from worker").fetchone()

    worker = start(lease="6s", grace="30s")
    job = await work.enqueue()
    await eventually(beats)
    seen = beats()
    for _ in range(3):
        seen = await eventually(lambda seen=seen: (now := beats()) != seen and now)
    assert (await job.status()).state == "running"
    release.set()
    assert (await worker.stop()).settled == {"succeed": 1}
    signed_off = beats()
    assert signed_off is not None
    assert signed_off[0] == signed_off[1], "the lease ended with the worker"
    assert not [task for task in asyncio.all_tasks() if "headway" in task.get_name()]


def test_u49_the_old_holder_cannot_settle_and_the_new_one_can(store: Store, worker: int) -> None:
    """Underway: the old mark_succeeded fails, the new one works. Headway: by claim number (G2)."""
    old = store.held(worker)
    (new,) = store.claim(lose(store))
    assert (new.id, counted(new)) == (old.id, 2)
    assert not store.settle(old, "succeed", result="old")
    assert store.settle(new, "succeed", result="new")
    archived = store.archived(new.id)
    assert archived is not None
    assert archived["result"] == "new"


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
        await worker.worker._executor.idle()
        before = before or asyncio.all_tasks()
    assert worker.worker._executor.running == {}
    assert worker.worker._executor.free == 100
    assert {task.get_name() for task in asyncio.all_tasks()} <= {task.get_name() for task in before}
