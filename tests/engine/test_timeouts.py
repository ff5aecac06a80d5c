"""Timeouts of handlers on the loop and in threads; those of processes stand in test_processes.py."""

import asyncio
import threading
import time

import pytest

from headway import Context, Headway, Retry
from headway.errors import JobFailed
from tests.support import DEADLINE, eventually

ONCE = Retry(max_attempts=1)


async def test_a_handler_on_the_loop_is_cancelled_and_the_attempt_is_spent(hw: Headway) -> None:
    told: list[bool] = []

    @hw.task(timeout="50ms", retry=Retry(3, backoff="constant", base=0, jitter=0))
    async def slow(ctx: Context) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            told.append(ctx.cancelled)
            raise

    job = await slow.enqueue()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt) == ("failed", 3)
    assert status.error == {"type": "TimedOut", "message": "timed out after 50ms"}
    assert told == [True] * 3
    assert [a.error["type"] for a in await job.attempts()] == ["TimedOut"] * 3


async def test_a_timeout_of_the_call_holds_over_that_of_the_task(hw: Headway) -> None:
    @hw.task(timeout="1h", retry=ONCE)
    async def slow() -> None:
        await asyncio.sleep(3600)

    job = await slow.using(timeout=0.05).enqueue()
    await hw.run_until_idle()
    assert (await job.status()).error["type"] == "TimedOut"


async def test_a_job_that_ends_in_time_is_not_disturbed(hw: Headway) -> None:
    @hw.task(timeout="20s")
    async def quick(ctx: Context) -> bool:
        await asyncio.sleep(0)
        return ctx.cancelled

    jobs = await quick.enqueue_many([{}] * 50)
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == [False] * 50


async def test_cleaning_up_after_a_timeout_may_take_its_time(hw: Headway) -> None:
    cleaned = asyncio.Event()

    @hw.task(timeout="50ms", retry=ONCE)
    async def careful() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.2)
            cleaned.set()

    job = await careful.enqueue()
    await hw.run_until_idle()
    assert cleaned.is_set()
    assert (await job.status()).error["type"] == "TimedOut"


async def test_a_timeout_of_the_handler_s_own_is_an_error_like_others(hw: Headway) -> None:
    @hw.task(timeout="1h", retry=ONCE)
    async def task() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(3600)

    job = await task.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).error["type"] == "TimeoutError"


async def test_a_thread_in_a_loop_of_its_own_is_interrupted(hw: Headway) -> None:
    ended = threading.Event()

    @hw.task(timeout="2s", retry=ONCE)
    def spin() -> None:
        try:
            while True:
                pass
        finally:
            ended.set()

    job = await spin.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).error == {"type": "TimedOut", "message": "timed out after 2s"}
    assert await asyncio.to_thread(ended.wait, DEADLINE)


async def test_a_thread_that_swallows_every_exception_is_interrupted_all_the_same(
    hw: Headway,
) -> None:
    @hw.task(timeout="100ms", retry=ONCE)
    def stubborn() -> None:
        while True:
            try:
                time.sleep(0.001)
            except Exception:
                continue

    job = await stubborn.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).error["type"] == "TimedOut"


async def test_a_thread_that_looks_at_its_context_stops_by_itself(hw: Headway) -> None:
    @hw.task(timeout="100ms", retry=ONCE)
    def polite(ctx: Context) -> str:
        while not ctx.cancelled:
            time.sleep(0.002)
        return "stopped in time"

    job = await polite.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).error["type"] == "TimedOut"


@pytest.mark.slow
async def test_a_thread_stuck_outside_of_python_is_abandoned_and_keeps_its_slot(
    hw: Headway, start
) -> None:
    """Its job is settled, the worker goes on with the slots that are left, and the slot comes back
    when the thread really ends."""
    lock = threading.Lock()
    lock.acquire()
    now, most = 0, 0

    @hw.task(timeout="2s", retry=ONCE, name="stuck")
    def stuck() -> None:
        with lock:  # no exception reaches a thread that waits here
            pass

    @hw.task
    async def calm() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1

    running = start(concurrency=2, lease="6s")
    job = await stuck.enqueue()
    with pytest.raises(JobFailed, match="TimedOut"):
        await job.result(timeout="60s")
    others = await calm.enqueue_many([{}] * 10)
    await asyncio.gather(*[other.result(timeout="60s") for other in others])
    assert most == 1, "one of two slots is taken by the thread"
    assert not running.done()

    lock.release()
    most = 0

    async def both_slots() -> bool:
        more = await calm.enqueue_many([{}] * 10)
        await asyncio.gather(*[other.result(timeout="60s") for other in more])
        return most == 2

    await eventually(both_slots)


@pytest.mark.slow
async def test_a_worker_whose_every_slot_was_abandoned_goes_on_when_they_are_free(
    hw: Headway, start
) -> None:
    lock = threading.Lock()
    lock.acquire()

    @hw.task(timeout="2s", retry=ONCE)
    def stuck() -> None:
        with lock:
            pass

    @hw.task
    async def calm() -> str:
        return "at last"

    start(concurrency=1, lease="6s")
    job = await stuck.enqueue()
    with pytest.raises(JobFailed, match="TimedOut"):
        await job.result(timeout="60s")
    waiting = await calm.enqueue()
    lock.release()
    assert await waiting.result(timeout="60s") == "at last"


async def test_a_timeout_ends_with_its_attempt_and_cannot_stop_a_later_one(hw, start) -> None:
    timers: list[asyncio.TimerHandle | None] = []

    @hw.task(timeout="1h")
    async def task(ctx: Context) -> None:
        timers.append(running.worker._running.executor.running[str(ctx.job_id)].timer)

    running = start()
    await (await task.enqueue()).result(timeout="60s")
    (timer,) = timers
    assert timer is not None
    assert timer.cancelled()
