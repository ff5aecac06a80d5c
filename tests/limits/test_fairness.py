"""Fairness: in the order of starts, a waiting job is overtaken by at most as many as may run at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from headway import Headway, Key, Limit
from tests.limits.record import Record
from tests.support import Running, eventually

Start = Callable[..., Running]


def most_ahead(order: Sequence[str], lengths: Mapping[str, int]) -> int:
    """By how many starts a key was ever ahead of one that still waited."""
    begun = Counter[str]()
    most = 0
    for key in order:
        begun[key] += 1
        waiting = [begun[other] for other in lengths if begun[other] < lengths[other]]
        most = max(most, begun[key] - min(waiting, default=begun[key]))
    return most


async def test_a_tenant_with_thousands_does_not_hold_up_one_with_a_single_job(
    hw: Headway, start: Start, record: Record
) -> None:
    """The thousands are there first. The others come when they stand in line."""
    slots, each = 4, 2

    @hw.task(limit=Limit(key=lambda tenant: tenant, concurrency=each))
    async def work(tenant: str) -> None: ...

    await work.enqueue_many([{"tenant": "large"}] * 5_000)
    start(concurrency=slots, poll="1h")
    await eventually(lambda: len(record.starts()) > 50)
    small = await work.enqueue_many({"tenant": f"small {n}"} for n in range(5))
    for job in small:
        await job.result(timeout=60)
    # Jobs that were admitted before it run before it, and those that were starting at that moment.
    assert max(record.passed_by(job.id) for job in small) <= each + len(small) + slots
    assert len(record.starts("work/large")) < 5_000
    await hw.queues.purge("default")


@pytest.mark.parametrize("limit", [Limit(concurrency=1_000), Limit(rate="9000/s", burst=1_000)])
async def test_turns_are_short_however_high_the_limit(
    hw: Headway, start: Start, record: Record, limit: Limit
) -> None:
    """Of a key that has room for all its jobs no more stand in the queue than a turn has."""
    slots, turn = 4, 32
    by_tenant = Limit(
        key=lambda tenant: tenant, concurrency=limit.concurrency, rate=limit.rate, burst=limit.burst
    )

    @hw.task(limit=by_tenant)
    async def work(tenant: str) -> None: ...

    await work.enqueue_many([{"tenant": "large"}] * 3_000)
    start(concurrency=slots, poll="1h")
    await eventually(lambda: len(record.starts()) > 50)
    small = await work.enqueue(tenant="small")
    await small.result(timeout=60)
    assert record.passed_by(small.id) <= turn + slots
    assert len(record.starts("work/large")) < 3_000
    await hw.queues.purge("default")


@pytest.mark.parametrize("of", ["limit", "concurrency_key"])
async def test_a_key_alone_has_all_the_slots_that_its_limit_allows(
    hw: Headway, start: Start, record: Record, of: str
) -> None:
    """A turn is short, but the next one follows as soon as its jobs have started."""
    gate, most = asyncio.Event(), 150

    async def work() -> None:
        await gate.wait()

    options: dict[str, Any] = {"limit": Limit(key="k", concurrency=most)}
    if of == "concurrency_key":
        options = {"concurrency_key": Key("k", limit=most)}
    task = hw.task(**options)(work)
    start(concurrency=200, poll="1h")
    await task.enqueue_many([{}] * 200)
    await eventually(lambda: record.running() == most)
    gate.set()
    await eventually(lambda: record.left() == 0)
    assert max(record.most_at_once("key").values()) == most


async def test_keys_take_turns_however_long_their_lines_are(
    hw: Headway, start: Start, record: Record
) -> None:
    """All there from the beginning: each is ahead of one that waits by what may be under way at most."""
    slots, each = 4, 2
    lengths = {"work/a": 300, "work/b": 60, "work/c": 60, "work/d": 20, "work/e": 1}

    @hw.task(limit=Limit(key=lambda tenant: tenant, concurrency=each))
    async def work(tenant: str) -> None: ...

    for key, length in lengths.items():
        await work.enqueue_many([{"tenant": key.removeprefix("work/")}] * length)
    start(concurrency=slots, poll="1h")
    await eventually(lambda: record.left() == 0)
    order = [one.key or "" for one in record.starts()]
    assert Counter(order) == lengths
    assert most_ahead(order, lengths) <= each + slots
    assert max(record.most_at_once("key").values()) <= each
    # The shares while four of them wait: each a quarter, as far as whole turns go.
    head = Counter(order[:80])
    assert all(abs(head[f"work/{key}"] - 20) <= each + slots for key in "abcd"), head


async def test_keys_with_a_rate_take_turns_as_well(
    hw: Headway, start: Start, record: Record
) -> None:
    lengths = {"work/a": 60, "work/b": 12, "work/c": 12}

    @hw.task(limit=Limit(key=lambda tenant: tenant, rate="200/s", burst=2))
    async def work(tenant: str) -> None: ...

    for key, length in lengths.items():
        await work.enqueue_many([{"tenant": key.removeprefix("work/")}] * length)
    start(concurrency=4, poll="1h")
    await eventually(lambda: record.left() == 0)
    order = [one.key or "" for one in record.starts()]
    assert Counter(order) == lengths
    jobs = {one.key: n for n, one in enumerate(record.starts())}
    assert jobs["work/b"] < jobs["work/a"], "a short line ends before a long one"


async def test_a_task_with_a_limit_has_its_turn_among_those_without(
    hw: Headway, record: Record
) -> None:
    """In one lane. It once waited until nothing else was left."""

    @hw.task
    async def plain() -> None: ...

    @hw.task(limit=Limit(concurrency=3))
    async def limited() -> None: ...

    @hw.task(limit=Limit(rate="1000/s", burst=100))
    async def rated() -> None: ...

    for task in (plain, limited, rated):
        await task.enqueue_many([{}] * 30)
    await hw.run_until_idle(concurrency=1)
    order = [one.handler for one in record.starts()]
    assert Counter(order) == {"plain": 30, "limited": 30, "rated": 30}
    assert most_ahead(order, Counter(order)) <= 2


async def test_a_full_limit_holds_up_no_other_task_of_its_queue(
    hw: Headway, start: Start, record: Record
) -> None:
    """Neither behind it in the same lane, nor below it in priority."""
    gate = asyncio.Event()

    @hw.task(limit=Limit(concurrency=1), priority=9)
    async def narrow() -> None:
        await gate.wait()

    @hw.task(limit=Limit(key=lambda: "k", concurrency=1), priority=9)
    async def keyed() -> None:
        await gate.wait()

    @hw.task
    async def other() -> None: ...

    start(poll="1h", concurrency=5)
    for task in (narrow, keyed):
        await task.enqueue_many([{}] * 50)
    await eventually(lambda: record.running() == 2)
    for priority in (9, 0, -9):
        for _ in range(5):
            await (await other.using(priority=priority).enqueue()).result(timeout=60)
    assert record.running() == 2
    gate.set()
    await eventually(lambda: record.left() == 0)
