"""A limit that is full: nobody spins, nothing is forgotten, and priority stays strict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway import Headway, Limit
from headway.engine.worker import Worker
from tests.limits.record import Record
from tests.limits.test_rates import round_trips
from tests.support import Running, eventually

Start = Callable[..., Running]


def _waits(worker: Worker) -> bool:
    """It has asked in vain, and nothing but room makes it ask again."""
    planner = worker._claiming.planner  # pyright: ignore[reportPrivateUsage]
    return bool(planner.limits.held) and not planner.scans.scan_due


async def test_a_scan_does_not_forget_jobs_under_a_full_limit(
    hw: Headway, start: Start, record: Record
) -> None:
    """A look reads every line from its start. One that got nothing for want of room was once taken for
    read, and its jobs were found by the next poll only."""
    gate = asyncio.Event()

    @hw.task(limit=Limit(concurrency=1))
    async def work() -> None:
        await gate.wait()

    worker = start(poll="1h").worker
    await work.enqueue_many([{}] * 5)
    await eventually(lambda: record.running() == 1)
    for number in range(3):
        before = round_trips(worker)
        # A worker that is notified of a change reads all controls, and then claims.
        await hw.controls.pause(queue=f"elsewhere {number}")
        await eventually(lambda before=before: round_trips(worker) >= before + 2)
    gate.set()
    await eventually(lambda: record.left() == 0)
    assert record.over() == []


async def test_the_same_goes_for_a_queue_with_lanes(
    hw: Headway, start: Start, record: Record
) -> None:
    gate = asyncio.Event()

    @hw.task(queue="q")
    async def work() -> None:
        await gate.wait()

    await hw.queues.limit("q", concurrency=2)
    worker = start(poll="1h").worker
    for priority in (0, 5, -5):
        await work.using(priority=priority).enqueue_many([{}] * 4)
    await eventually(lambda: record.running() == 2)
    before = round_trips(worker)
    await hw.controls.pause(queue="elsewhere")
    await eventually(lambda: round_trips(worker) >= before + 2)
    gate.set()
    await eventually(lambda: record.left() == 0)
    assert record.over() == []


async def test_a_full_limit_makes_no_worker_spin(hw: Headway, start: Start, record: Record) -> None:
    """Two workers find no room. While one of them serves another queue, the one with nothing to do asks
    for nothing."""
    gate = asyncio.Event()

    @hw.task(queue="full")
    async def held() -> None:
        await gate.wait()

    @hw.task(queue="other")
    async def other() -> None: ...

    await hw.queues.limit("full", concurrency=1)
    idle = start(queues={"full": 1}, poll="1h").worker
    busy = start(queues={"full": 1, "other": 1}, poll="1h").worker
    await held.enqueue_many([{}] * 30)
    await eventually(lambda: record.running() == 1)
    await (await other.enqueue()).result(timeout=60)
    before = round_trips(idle), round_trips(busy)
    for _ in range(20):
        await (await other.enqueue()).result(timeout=60)
    # Both may still have had a round of asking to do.
    assert round_trips(idle) - before[0] <= 10
    assert round_trips(busy) - before[1] <= 20 * 6
    assert record.running() == 1
    gate.set()
    await eventually(lambda: record.left() == 0)
    assert record.over() == []


async def test_room_freed_in_one_worker_is_used_by_another(
    hw: Headway, start: Start, record: Record
) -> None:
    """The worker that frees it cannot: it has no slot, or no such task. It notifies the others."""
    first, second = asyncio.Event(), asyncio.Event()

    @hw.task(queue="a", limit=Limit(concurrency=1))
    async def work(n: int) -> None:
        await (first if n == 0 else second).wait()

    start(queues={"a": 1}, poll="1h")
    await work.enqueue(0)
    await eventually(lambda: record.running() == 1)
    other = start(queues={"b": 1}, poll="1h").worker
    await work.using(queue="b").enqueue(1)
    await eventually(lambda: _waits(other))
    assert record.running() == 1
    first.set()
    await eventually(lambda: record.running() == 1 and len(record.starts()) == 2)
    second.set()
    await eventually(lambda: record.left() == 0)
    assert len({one.worker for one in record.starts()}) == 2


async def test_priority_is_strict_within_a_queue_that_has_a_limit(
    hw: Headway, record: Record
) -> None:
    @hw.task(queue="q")
    async def plain(n: int) -> None: ...

    @hw.task(queue="q", limit=Limit(concurrency=1))
    async def narrow(n: int) -> None: ...

    await hw.queues.limit("q", concurrency=1)
    order = [0, 5, -3, 9, 5, 0, -3, 9]
    for n in order:
        await plain.using(priority=n).enqueue(n)
        await narrow.using(priority=n).enqueue(n)
    await hw.run_until_idle(concurrency=20)
    ran = [one.priority for one in record.starts()]
    assert ran == sorted([*order, *order], reverse=True)
    assert record.over() == []
