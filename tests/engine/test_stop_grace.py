"""B8: a plain function that is to stop is asked first, and interrupted after its grace."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from headway import Context, Headway, Interrupted
from headway.errors import ConfigError, JobCancelled
from tests.support import DEADLINE, eventually


async def test_b8_a_thread_that_looks_at_cancelled_ends_by_itself(hw: Headway, start) -> None:
    inside, ends = threading.Event(), list[str]()

    @hw.task(stop_grace="60s")
    def polite(ctx: Context) -> None:
        inside.set()
        try:
            while not ctx.cancelled:
                time.sleep(0.001)
            ends.append("by itself")
        except BaseException:
            ends.append("interrupted")
            raise

    start()
    job = await polite.enqueue()
    await asyncio.to_thread(inside.wait, DEADLINE)
    await job.cancel()
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")
    assert ends == ["by itself"]


@pytest.mark.parametrize("why", ["cancel", "timeout"])
async def test_b8_one_that_does_not_look_is_interrupted_after_its_grace(
    hw: Headway, start, why: str
) -> None:
    inside, seen = threading.Event(), list[tuple[type, bool]]()

    @hw.task(stop_grace="50ms", timeout="1ms" if why == "timeout" else None)
    def stubborn(ctx: Context) -> None:
        try:
            inside.set()
            while True:
                time.sleep(0.001)
        except BaseException as error:
            seen.append((type(error), ctx.cancelled))
            raise

    start()
    job = await stubborn.enqueue()
    await asyncio.to_thread(inside.wait, DEADLINE)
    if why == "cancel":
        await job.cancel()
    await eventually(lambda: seen)
    assert seen[0] == (Interrupted, True)


async def test_b8_the_end_of_a_worker_s_grace_ends_that_of_its_tasks(hw: Headway, start) -> None:
    """The job was cancelled before: what is left of its hour is not waited for."""
    inside, asked = threading.Event(), threading.Event()

    @hw.task(stop_grace="1h")
    def stubborn(ctx: Context) -> None:
        inside.set()
        while True:
            time.sleep(0.001)
            if ctx.cancelled:
                asked.set()

    worker = start(grace="10ms")
    job = await stubborn.enqueue()
    await asyncio.to_thread(inside.wait, DEADLINE)
    await job.cancel()
    await asyncio.to_thread(asked.wait, DEADLINE)
    await asyncio.wait_for(worker.stop(), DEADLINE)
    assert (await job.status()).state == "cancelled"


def test_b8_a_grace_is_for_threads_only(hw: Headway) -> None:
    async def on_the_loop(ctx: Context) -> None: ...

    with pytest.raises(ConfigError, match="stop_grace"):
        hw.task(stop_grace="1s")(on_the_loop)
    wrong: Any = "soon"
    with pytest.raises(ConfigError, match="stop_grace"):
        hw.task(stop_grace=wrong)(lambda: None)
