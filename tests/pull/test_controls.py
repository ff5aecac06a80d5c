"""Pauses and limits hold for consumers as they do for workers, and so do the steps of flows."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from headway import Headway, PulledJob
from headway.engine.notify.ready import concerns
from tests.sql.hand import Hand
from tests.support import DEADLINE


async def _there(hw: Headway, hand: Hand, number: int, **options: Any) -> list[PulledJob]:
    """This many jobs can be pulled, and no more, in Python and in SQL."""
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", count=100, **options)) as pulled:
        jobs = [await anext(pulled) for _ in range(number)]
    assert hand.claim("ext", 100) == []
    return jobs


async def test_no_more_of_a_queue_than_its_limit_run_at_once(hw: Headway, hand: Hand) -> None:
    for _ in range(5):
        hand.enqueue("resize", queue="ext")
    await hw.queues.limit("ext", concurrency=2)
    first, _ = await _there(hw, hand, 2)
    assert await first.complete()
    await _there(hw, hand, 1)
    await hw.queues.limit("ext")
    await _there(hw, hand, 2)


async def test_no_more_of_a_task_than_its_limit_and_the_others_pass_by(
    hw: Headway, hand: Hand
) -> None:
    for _ in range(4):
        hand.enqueue("narrow", queue="ext")
    hand.enqueue("wide", queue="ext")
    await hw.controls.limit(task="narrow", concurrency=1)
    jobs = await _there(hw, hand, 2)
    assert sorted(job.task for job in jobs) == ["narrow", "wide"]


async def test_no_more_start_in_a_time_than_the_rate_allows(hw: Headway, hand: Hand) -> None:
    for _ in range(9):
        hand.enqueue("resize", queue="ext")
    await hw.queues.limit("ext", rate="3/h", burst=3)
    jobs = await _there(hw, hand, 3)
    for job in jobs:
        assert await job.complete()
    assert hand.claim("ext", 100) == [], "an end gives no token back"


async def test_a_paused_queue_task_or_key_gives_nothing(hw: Headway, hand: Hand) -> None:
    hand.enqueue("resize", queue="ext")
    await hw.queues.pause("ext")
    assert hand.claim("ext", 100) == []
    assert await hw.queues.resume("ext")
    await hw.controls.pause(task="resize")
    hand.enqueue("other", queue="ext")
    hand.enqueue("other", queue="ext", concurrency_key="tenant")
    await hw.controls.pause(key="tenant")
    (job,) = await _there(hw, hand, 1)
    assert (job.task, job.key) == ("other", None)


async def test_a_pause_that_ends_by_itself_is_not_waited_for_any_longer(
    hw: Headway, hand: Hand
) -> None:
    made = hand.enqueue("resize", queue="ext")
    await hw.queues.pause("ext", until="1s")
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        job = await anext(pulled)
    assert job.id == made
    assert await job.complete()


async def test_a_consumer_that_waits_for_room_gets_what_it_makes_way_for(
    hw: Headway, hand: Hand, waits: asyncio.Event
) -> None:
    made = [hand.enqueue("resize", queue="ext") for _ in range(2)]
    await hw.queues.limit("ext", concurrency=1)
    (held,) = await _there(hw, hand, 1)
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        coming = asyncio.ensure_future(anext(pulled))
        await waits.wait()
        assert await held.complete()
        assert {held.id, (await coming).id} == set(made)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("ready 0 ext", True),
        ("ready 5,0 ext", True),
        ("ready 0 other", False),
        ("ready 0 ext 2", False),
        ("control", True),
        ("open queue ext", True),
        ("open queue other", False),
        ("open task ext", False),
        ("later", False),
        ("room ext", False),
        ("cancel 1", False),
    ],
)
def test_a_consumer_is_woken_by_what_may_concern_its_queue(payload: str, expected: bool) -> None:
    assert concerns(payload, "ext") is expected


async def test_a_step_of_a_flow_may_be_pulled_and_ends_it(hw: Headway, hand: Hand) -> None:
    flow = hw.flow("order", queue="ext")

    @flow.step
    async def pack(order_id: int):
        return ship.next(order_id=order_id, weight=3)

    @flow.step
    async def ship(order_id: int, weight: int) -> str:
        raise AssertionError("it is done elsewhere")

    waiting = await flow.enqueue(1)
    job = await flow.enqueue(2)
    hand.rows(
        "update job set step = 'ship', input = '{\"order_id\": 2, \"weight\": 3}' where id = %s",
        job.id,
    )
    (pulled,) = await _first(hw, 1, tasks=["order/ship"])
    assert (pulled.id, pulled.task, pulled.step) == (job.id, "order", "ship")
    assert pulled.input == {"order_id": 2, "weight": 3}
    assert await pulled.complete("shipped")
    assert await job.result(timeout=DEADLINE) == "shipped"
    (first,) = await _first(hw, 1, tasks=["order/pack"])
    assert first.id == waiting.id
    assert hand.call("advance", first.id, first.claim, "ship", {"order_id": 1, "weight": 9})
    (second,) = await _first(hw, 1)
    assert (second.id, second.step, second.input["weight"]) == (waiting.id, "ship", 9)


async def _first(hw: Headway, number: int, **options: Any) -> list[PulledJob]:
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", **options)) as pulled:
        return [await anext(pulled) for _ in range(number)]


async def test_the_task_filter_takes_several_and_no_others(hw: Headway, hand: Hand) -> None:
    for task in ("a", "b", "c", "a", "d"):
        hand.enqueue(task, queue="ext")
    jobs = await _first(hw, 3, count=10, tasks=["a", "c"])
    assert sorted(job.task for job in jobs) == ["a", "a", "c"]
    assert hand.claim("ext", 10, tasks=["a", "c"]) == []
