"""Limits and every way a job may run: again, step by step, in a transaction, a process or a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headway import Batch, Context, Headway, Limit, Retry, Snooze, Task
from tests.limits import tasks
from tests.limits.record import Record
from tests.sql.hand import Hand
from tests.support import Running, eventually

Start = Callable[..., Running]
AT_ONCE = Retry(max_attempts=9, base=0, jitter=0)
LIMITS = [
    Limit(concurrency=2),
    Limit(key=lambda n: f"k{n % 2}", concurrency=1),
    Limit(key=lambda n: f"k{n % 2}", rate="300/s", burst=3),
    Limit(concurrency=2, rate="300/s", burst=3),
]
IDS = ["task", "key", "key with a rate", "task with a rate"]


def assert_held(record: Record, limit: Limit, handler: str) -> None:
    most = limit.concurrency
    if most is not None and limit.key is None:
        assert record.most_at_once("task")[handler] <= most
    elif most is not None:
        assert max(record.most_at_once("key").values()) <= most
    assert record.over() == []


@pytest.mark.parametrize("limit", LIMITS, ids=IDS)
async def test_retries_and_snoozes_come_back_under_the_limit(
    hw: Headway, start: Start, record: Record, limit: Limit
) -> None:
    """At once, later, and with the attempt given back."""

    @hw.task(limit=limit, retry=AT_ONCE)
    async def work(ctx: Context, n: int) -> None:
        if ctx.attempt == 1 and n % 3 == 0:
            raise RuntimeError("again")
        if n % 3 == 1 and (ctx.job_id, "slept") not in seen:
            seen.add((ctx.job_id, "slept"))
            raise Snooze("10ms")

    seen = set[Any]()
    await work.enqueue_many({"n": n} for n in range(12))
    for _ in range(2):
        start(poll="1h")
    await eventually(lambda: record.left() == 0)
    record.assert_each_ended_once(12)
    assert len(record.starts()) == 20
    assert_held(record, limit, "work")


@pytest.mark.parametrize("limit", LIMITS, ids=IDS)
async def test_a_step_has_its_limit_and_the_next_one_none(
    hw: Headway, start: Start, record: Record, limit: Limit
) -> None:
    flow = hw.flow("flow")

    @flow.step
    async def one(n: int) -> Any:
        return two.next(n=n)

    @flow.step(limit=limit)
    async def two(n: int) -> Any:
        await asyncio.sleep(0)
        return three.next(n=n)

    @flow.step(retry=AT_ONCE)
    async def three(ctx: Context, n: int) -> int:
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return n

    for n in range(10):
        await flow.enqueue(n=n)
    for _ in range(2):
        start(poll="1h")
    await eventually(lambda: record.left() == 0)
    assert len(record.starts("flow/two")) == 10
    assert len(record.starts("flow/three")) == 20
    assert_held(record, limit, "flow/two")


@pytest.mark.parametrize("limit", LIMITS, ids=IDS)
async def test_transactions_free_their_room_with_their_commit(
    hw: Headway, start: Start, record: Record, limit: Limit
) -> None:
    @hw.task(limit=limit, transaction=True)
    async def work(ctx: Context, n: int) -> int:
        await ctx.conn.execute("select 1")
        return n

    await work.enqueue_many({"n": n} for n in range(12))
    for _ in range(2):
        start(poll="1h")
    await eventually(lambda: record.left() == 0)
    record.assert_each_ended_once(12)
    assert_held(record, limit, "work")


@pytest.mark.slow
async def test_processes_have_limits_too(hw: Headway, start: Start, record: Record) -> None:
    cube: Any = Task(hw._session, tasks.cube.definition)
    hw.tasks["cube"] = cube
    jobs = await cube.enqueue_many({"n": n} for n in range(8))
    start(poll="1h", processes=1)
    assert [await job.result(timeout=60) for job in jobs] == [n**3 for n in range(8)]
    assert_held(record, Limit(concurrency=2), "cube")


async def test_a_batch_has_as_many_as_the_limit_lets_run(
    hw: Headway, start: Start, record: Record
) -> None:
    sizes: list[int] = []

    @hw.task(limit=Limit(concurrency=3), batch=Batch(size=10, wait="20ms"))
    async def work(ns: list[int]) -> list[int]:
        sizes.append(len(ns))
        return ns

    jobs = await work.enqueue_many(work.call(n) for n in range(9))
    start(poll="1h")
    assert [await job.result(timeout=60) for job in jobs] == list(range(9))
    assert max(sizes) <= 3
    assert_held(record, Limit(concurrency=3), "work")


async def test_a_worker_that_stops_gives_its_room_to_the_others(
    hw: Headway, start: Start, record: Record
) -> None:
    """A job that did not end within the grace goes back, and frees its room."""
    gate = asyncio.Event()

    @hw.task(limit=Limit(concurrency=2))
    async def work() -> None:
        await gate.wait()

    await work.enqueue_many([{}] * 4)
    first = start(poll="1h", grace="10ms")
    await eventually(lambda: record.running() == 2)
    start(poll="1h")
    await first.stop()
    await eventually(lambda: record.running() == 2)
    gate.set()
    await eventually(lambda: record.left() == 0)
    assert record.over() == []


async def test_a_consumer_in_sql_counts_as_workers_do(
    hw: Headway, start: Start, record: Record, hand: Hand
) -> None:
    """While its transaction is open nobody else has the limit. They do their other work."""
    gate = asyncio.Event()

    @hw.task(queue="q", limit=Limit(concurrency=2))
    async def work() -> None:
        await gate.wait()

    @hw.task(queue="q")
    async def other() -> str:
        return "served"

    await hw.run_until_idle()
    await work.enqueue_many([{}] * 5)
    with hand.conn.transaction():
        (claimed,) = hand.claim("q", tasks=["work"])
        start(poll="1h")
        start(poll="1h")
        for _ in range(3):
            assert await (await other.enqueue()).result(timeout=60) == "served"
        assert record.running() == 0, "as all others see it"
    await eventually(lambda: record.running() == 2)
    assert hand.settle("complete", claimed)
    await eventually(lambda: record.running() == 2 and record.left() == 4)
    gate.set()
    await eventually(lambda: record.left() == 0)
    assert record.over() == []
    record.assert_each_ended_once(8)
