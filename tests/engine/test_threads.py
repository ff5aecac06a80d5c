"""Plain functions run in threads and leave the loop alone."""

import asyncio
import contextvars
import threading
import time

import pytest

from headway import Context, Headway
from headway.errors import JobCancelled
from tests.support import DEADLINE


async def test_handlers_in_threads_do_not_block_the_loop(hw: Headway, start) -> None:
    hold = threading.Event()
    entered = threading.Barrier(6)

    @hw.task
    def blocking() -> str:
        entered.wait(DEADLINE)
        hold.wait(DEADLINE)
        return "let go"

    @hw.task
    async def quick(n: int) -> int:
        return n

    start()
    blocked = await blocking.enqueue_many([{}] * 5)
    await asyncio.to_thread(entered.wait, DEADLINE)
    # All five sit in their threads: the loop answers others meanwhile.
    jobs = await quick.enqueue_many({"n": n} for n in range(20))
    assert [await job.result(timeout="60s") for job in jobs] == list(range(20))
    hold.set()
    assert [await job.result(timeout="60s") for job in blocked] == ["let go"] * 5


async def test_as_many_threads_run_as_there_are_slots(hw: Headway) -> None:
    together = threading.Barrier(20)

    @hw.task
    def task() -> None:
        together.wait(DEADLINE)

    jobs = await task.enqueue_many([{}] * 20)
    await hw.run_until_idle(concurrency=20)
    assert {(await job.status()).state for job in jobs} == {"succeeded"}


async def test_a_thread_in_python_code_is_cancelled(hw: Headway, start) -> None:
    inside = threading.Event()

    @hw.task
    def spin(ctx: Context) -> None:
        inside.set()
        while True:
            time.sleep(0.001)

    start()
    job = await spin.enqueue()
    await asyncio.to_thread(inside.wait, DEADLINE)
    await job.cancel()
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")


async def test_an_interrupted_thread_runs_its_finally_blocks(hw: Headway, start) -> None:
    inside, closed = threading.Event(), threading.Event()

    @hw.task
    def careful() -> None:
        try:
            inside.set()
            while True:
                time.sleep(0.001)
        finally:
            closed.set()

    start()
    job = await careful.enqueue()
    await asyncio.to_thread(inside.wait, DEADLINE)
    await job.cancel()
    assert await asyncio.to_thread(closed.wait, DEADLINE)


async def test_an_interruption_never_strikes_the_next_job_of_the_thread(hw: Headway) -> None:
    """Jobs that end at the very moment their timeout strikes; one thread for all of them."""
    strays: list[BaseException] = []

    @hw.task(timeout="3ms")
    def edge(n: int) -> int:
        end = time.monotonic() + 0.003
        while time.monotonic() < end:
            pass
        return n

    @hw.task
    def innocent(n: int) -> int:
        try:
            for _ in range(20_000):
                pass
        except BaseException as error:
            strays.append(error)
            raise
        return n

    await edge.enqueue_many({"n": n} for n in range(60))
    good = await innocent.enqueue_many({"n": n} for n in range(60))
    await hw.run_until_idle(concurrency=1)
    assert strays == []
    assert [await job.result() for job in good] == list(range(60))


request = contextvars.ContextVar("request", default="none")


async def test_context_variables_of_one_job_are_not_seen_by_another(hw: Headway) -> None:
    @hw.task
    def plain() -> str:
        seen = request.get()
        request.set("plain")
        return seen

    @hw.task
    async def on_the_loop() -> str:
        seen = request.get()
        request.set("loop")
        return seen

    jobs = [await task.enqueue() for task in (plain, on_the_loop) * 5]
    await hw.run_until_idle(concurrency=1)
    assert [await job.result() for job in jobs] == ["none"] * 10


async def test_sync_calls_of_the_api_work_inside_a_thread(hw: Headway) -> None:
    @hw.task
    def parent(n: int) -> str:
        return str(child.enqueue_sync(n).id)

    @hw.task
    def child(n: int) -> int:
        return n * 2

    job = await parent.enqueue(4)
    await hw.run_until_idle()
    assert await hw.job(await job.result()).result() == 8
