"""Ordered keys: strictly one after another as enqueued, whatever each of them goes through."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Key, Retry, Snooze
from headway.errors import JobFailed
from tests.keys.told import Told
from tests.support import DEADLINE, eventually

SOON = Retry(max_attempts=3, backoff="constant", base="20ms", jitter=0)
IN_ORDER = Key(lambda key, **_: key, ordered=True)


async def test_one_after_another_through_retries_snoozes_and_failures(
    hw: Headway, start, told: Told
) -> None:
    @hw.task(concurrency_key=IN_ORDER, retry=SOON)
    async def work(ctx: Context, key: str, n: int) -> None:
        async with told.running(key, n):
            if n % 4 == 1 and ctx.attempt == 1:
                raise RuntimeError("again")
            if n % 4 == 2 and len([m for m in told.began(key) if m == n]) == 1:
                raise Snooze("20ms")
            if n % 4 == 3:
                raise RuntimeError("never")

    jobs = await work.enqueue_many({"key": key, "n": n} for n in range(9) for key in "ab")
    for _ in range(2):
        start(poll="1h")
    for number, job in enumerate(jobs):
        if number // 2 % 4 == 3:
            with pytest.raises(JobFailed):
                await job.result(timeout=DEADLINE)
        else:
            await job.result(timeout=DEADLINE)
    for key in "ab":
        assert told.began(key) == [0, 1, 1, 2, 2, 3, 3, 3, 4, 5, 5, 6, 6, 7, 7, 7, 8]
    assert told.most_at_once() == {"a": 1, "b": 1}


async def test_a_flow_keeps_its_turn_from_step_to_step(hw: Headway, start, told: Told) -> None:
    """Also while a step waits for its moment."""
    flow = hw.flow("order", concurrency_key=Key(lambda n: "k", ordered=True), retry=SOON)

    @flow.step
    async def pack(n: int) -> Any:
        async with told.running("k", n):
            return mail.next(n=n) if n % 2 else mail.after("20ms", n=n)

    @flow.step
    async def mail(ctx: Context, n: int) -> None:
        async with told.running("k", n):
            if ctx.attempt == 1:
                raise RuntimeError("again")

    jobs = await flow.enqueue_many({"n": n} for n in range(4))
    for _ in range(2):
        start(poll="1h")
    for job in jobs:
        await job.result(timeout=DEADLINE)
    assert told.began() == [n for n in range(4) for _ in range(3)]


async def test_a_step_has_a_key_of_its_own_and_leaves_it_behind(
    hw: Headway, start, told: Told, db: psycopg.Connection[Any]
) -> None:
    """Many pack at once, one mails at a time, and who has mailed waits elsewhere."""
    packing = asyncio.Barrier(3)
    filed = asyncio.Barrier(3)
    flow = hw.flow("order")

    @flow.step
    async def pack(n: int) -> Any:
        await packing.wait()
        return mail.next(n=n)

    @flow.step(concurrency_key="smtp")
    async def mail(n: int) -> Any:
        async with told.running("smtp", n):
            await asyncio.sleep(0)
        return file.next(n=n)

    @flow.step
    async def file(n: int) -> None:
        await filed.wait()

    jobs = await flow.enqueue_many({"n": n} for n in range(3))
    start(poll="1h")
    for job in jobs:
        await job.result(timeout=DEADLINE)
    assert told.most_at_once() == {"smtp": 1}
    assert sorted(told.began()) == [0, 1, 2]


async def test_of_one_call_the_order_holds_with_unique_keys_too(hw: Headway, told: Told) -> None:
    """Unique keys are taken in an order of their own; the jobs run in that of the call."""

    @hw.task(concurrency_key=IN_ORDER, unique=lambda n, **_: f"event {n}")
    async def work(key: str, n: int) -> None:
        async with told.running(key, n):
            pass

    numbers = [9, 10, 1, 11, 2, 100, 3]
    await work.enqueue_many({"key": "k", "n": n} for n in numbers)
    await hw.run_until_idle()
    assert told.began() == numbers


async def test_a_retry_of_an_unordered_job_lets_others_in(hw: Headway, start, told: Told) -> None:
    """The difference: what only waits holds no room."""

    @hw.task(concurrency_key="k", retry=Retry(max_attempts=2, base="1h", cap="1h", jitter=0))
    async def work(n: int) -> None:
        async with told.running("k", n):
            if n == 0:
                raise RuntimeError("in an hour")

    first, second = await work.enqueue_many([{"n": 0}, {"n": 1}])
    start(poll="1h")
    await second.result(timeout=DEADLINE)
    assert (await first.status()).state == "scheduled"


async def test_an_ordered_job_that_waits_for_its_retry_can_be_cancelled_and_the_next_runs(
    hw: Headway, start, told: Told, db: psycopg.Connection[Any]
) -> None:
    @hw.task(concurrency_key=IN_ORDER, retry=Retry(max_attempts=2, base="1h", cap="1h", jitter=0))
    async def work(key: str, n: int) -> None:
        async with told.running(key, n):
            if n == 0:
                raise RuntimeError("in an hour")

    first, second = await work.enqueue_many({"key": "k", "n": n} for n in (0, 1))
    start(poll="1h")
    await eventually(lambda: db.execute("select 1 from job where state = 's'").fetchone())
    assert (await second.status()).state == "blocked"
    assert await first.cancel()
    await second.result(timeout=DEADLINE)
