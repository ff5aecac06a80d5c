"""Rates: what starts in a time, from the database's record, and what the waiting costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway, Limit
from headway.engine.worker import Worker
from tests.limits.record import Record, assert_within
from tests.support import DEADLINE, Running, eventually

Start = Callable[..., Running]


def round_trips(worker: Worker) -> int:
    """The statements about jobs that this worker has sent."""
    return worker._job_loop.connection.round_trips  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("of", ["queue", "task"])
@pytest.mark.parametrize(("rate", "burst"), [("100/s", 1), ("3000/min", 7)])
async def test_no_more_start_in_any_window_than_may(
    hw: Headway, start: Start, record: Record, of: str, rate: str, burst: int
) -> None:
    """With three workers and no poll; what waits starts as soon as there is a token."""
    limit = Limit(rate=rate, burst=burst)

    @hw.task(queue="q", limit=limit if of == "task" else None)
    async def work() -> None: ...

    if of == "queue":
        await hw.queues.limit("q", rate=rate, burst=burst)
    for _ in range(3):
        start(poll="1h")
    await work.enqueue_many([{}] * 40)
    await eventually(lambda: record.left() == 0)
    assert limit.per_second is not None
    assert_within([one.at for one in record.starts()], limit.per_second, burst)
    record.assert_each_ended_once(40)


@pytest.mark.parametrize("lasting", [0.0, 0.1])
async def test_each_key_starts_at_its_own_rate(
    hw: Headway, start: Start, record: Record, lasting: float
) -> None:
    """With two workers and no poll, whether or not a job has ended when the next token comes."""

    @hw.task(limit=Limit(key=lambda key: key, rate="50/s", burst=3))
    async def work(key: str) -> None:
        await asyncio.sleep(lasting)

    for _ in range(2):
        start(poll="1h")
    await work.enqueue_many({"key": key} for _ in range(15) for key in "abc")
    await eventually(lambda: record.left() == 0)
    for key in "abc":
        moments = [one.at for one in record.starts(f"work/{key}")]
        assert len(moments) == 15
        assert_within(moments, 50.0, 3)
    record.assert_each_ended_once(45)


@pytest.mark.parametrize("held_up", ["by no worker", "by no slot", "by a pause"])
async def test_a_key_starts_no_more_than_its_rate_after_it_was_held_up(
    hw: Headway, start: Start, record: Record, db: psycopg.Connection[Any], held_up: str
) -> None:
    """Jobs that could not start meanwhile took no token: they do not start all at once."""
    gate = asyncio.Event()

    @hw.task(queue="q", priority=1)
    async def blocker() -> None:
        await gate.wait()

    @hw.task(queue="q", limit=Limit(key=lambda: "k", rate="20/s", burst=2))
    async def work() -> None: ...

    if held_up != "by no slot":
        start(queues={"elsewhere": 1}, poll="1h")
    else:
        await blocker.enqueue()
        start(queues={"q": 1}, concurrency=1, poll="1h")
        await eventually(lambda: record.running() == 1)
    await work.enqueue_many([{}] * 12)
    await eventually(lambda: len(record.let_in("work/k")) == 2)
    # By now as many tokens were earned as there are jobs, had the admitted jobs taken them.
    await eventually(lambda: record.age_of_let_in("work/k") > 12 / 20)
    assert len(record.let_in("work/k")) == 2
    if held_up == "by a pause":
        await hw.queues.pause("q")
    if held_up != "by no slot":
        start(queues={"q": 1}, concurrency=1, poll="1h")
    if held_up == "by a pause":
        both = "select count(*) = 2 from worker"
        await eventually(lambda: db.execute(both).fetchone() == (True,))
        await hw.queues.resume("q")
    gate.set()
    await eventually(lambda: record.left() == 0)
    moments = [one.at for one in record.starts("work/k")]
    assert len(moments) == 12
    assert_within(moments, 20.0, 2)


async def test_a_worker_sleeps_until_the_next_token(
    hw: Headway, start: Start, record: Record
) -> None:
    """It asks a few times for each start, and not in between."""

    @hw.task(queue="q")
    async def work() -> None: ...

    await hw.queues.limit("q", rate="20/s", burst=1)
    worker = start(poll="1h").worker
    await (await work.enqueue()).result(timeout=60)
    before = round_trips(worker)
    await work.enqueue_many([{}] * 20)
    await eventually(lambda: record.left() == 0)
    assert round_trips(worker) - before <= 20 * 5


async def test_a_worker_that_waits_for_a_far_token_asks_for_nothing(
    hw: Headway, start: Start, record: Record
) -> None:
    """Other queues are served meanwhile, with a few round trips for each of their jobs."""

    @hw.task(queue="slow")
    async def slow() -> None: ...

    @hw.task(queue="fast")
    async def fast() -> None: ...

    worker = start(poll="1h").worker
    await hw.queues.limit("slow", rate="1/h")
    await slow.enqueue_many([{}] * 5)
    await eventually(lambda: len(record.starts("slow")) == 1)
    await (await fast.enqueue()).result(timeout=60)
    before = round_trips(worker)
    for _ in range(10):
        await (await fast.enqueue()).result(timeout=60)
    assert round_trips(worker) - before <= 10 * 5
    assert len(record.starts("slow")) == 1


async def test_rate_and_concurrency_hold_together(
    hw: Headway, start: Start, record: Record
) -> None:
    @hw.task(limit=Limit(concurrency=2, rate="200/s", burst=4))
    async def work() -> None:
        await asyncio.sleep(0.005)

    for _ in range(2):
        start(poll="1h")
    await work.enqueue_many([{}] * 40)
    await eventually(lambda: record.left() == 0)
    assert record.most_at_once("task")["work"] <= 2
    assert_within([one.at for one in record.starts()], 200.0, 4)


async def test_run_until_idle_does_not_wait_for_tokens(hw: Headway) -> None:
    @hw.task(queue="q")
    async def by_queue() -> None: ...

    @hw.task(limit=Limit(key=lambda: "k", rate="1/h", burst=2))
    async def by_key() -> None: ...

    await hw.queues.limit("q", rate="1/h", burst=3)
    for task in (by_queue, by_key):
        await task.enqueue_many([{}] * 9)
    report = await asyncio.wait_for(hw.run_until_idle(), DEADLINE)
    assert report.settled == {"succeed": 5}
    assert (await hw.run_until_idle()).total == 0


async def test_a_rate_holds_though_producers_are_deployed_before_workers(
    hw: Headway, start: Start, record: Record, dsn: str, schema: str
) -> None:
    """Workers of the previous code are alive, and would admit jobs whose limit they do not know."""

    @hw.task
    async def other() -> None: ...

    start(poll="1h")
    await (await other.enqueue()).result(timeout=60)
    newer = Headway(dsn, schema=schema)

    @newer.task(limit=Limit(key="k", rate="40/s", burst=2))
    async def work() -> None: ...

    await work.enqueue_many([{}] * 20)
    await (await other.enqueue()).result(timeout=60)
    assert record.let_in("work/k") == []
    running = Running(newer.worker(poll="1h", grace="1s"))
    await eventually(lambda: record.left() == 0)
    await running.stop()
    await newer.close()
    assert_within([one.at for one in record.starts("work/k")], 40.0, 2)
