"""G12: priority is strict within a queue; queues take turns by their weights."""

import asyncio
from collections import Counter

import pytest

from headway import Headway
from tests.support import DEADLINE, eventually


async def test_g12_within_a_queue_the_higher_priority_goes_first(hw: Headway) -> None:
    ran: list[int] = []

    @hw.task
    async def task(n: int) -> None:
        ran.append(n)

    order = [0, 5, -3, 9, 5, 0, -3, 9, 32_767, -32_768]
    await task.enqueue_many(task.using(priority=n).call(n) for n in order)
    await hw.run_until_idle(concurrency=1)
    assert ran == sorted(order, reverse=True)


async def test_within_a_lane_jobs_run_in_the_order_they_were_enqueued(hw: Headway) -> None:
    ran: list[int] = []

    @hw.task
    async def task(n: int) -> None:
        ran.append(n)

    await task.enqueue_many({"n": n} for n in range(300))
    for n in range(300, 320):
        await task.enqueue(n)
    await hw.run_until_idle(concurrency=1)
    assert ran == list(range(320))


async def test_a_batch_that_is_claimed_together_starts_in_order(hw: Headway) -> None:
    ran: list[int] = []

    @hw.task
    async def task(n: int) -> None:
        ran.append(n)

    await task.enqueue_many(task.using(priority=-n).call(n) for n in range(50))
    await hw.run_until_idle(concurrency=100)
    assert ran == list(range(50))


async def test_g12_what_comes_later_with_a_higher_priority_overtakes_what_waits(
    hw: Headway, start
) -> None:
    ran: list[str] = []
    inside, opened = asyncio.Event(), asyncio.Event()

    @hw.task
    async def task(name: str) -> None:
        ran.append(name)
        if name == "first":
            inside.set()
            await opened.wait()

    lines = start(concurrency=1).worker._claiming.planner.lines
    await (await task.using(priority=10).enqueue("the worker knows of this lane")).result(DEADLINE)
    await task.enqueue("first")
    await asyncio.wait_for(inside.wait(), DEADLINE)
    low = await task.enqueue_many([{"name": "low"}] * 20)
    await task.using(priority=10).enqueue("high")
    # The notification follows the commit, and may be on its way still.
    await eventually(lambda: {0, 10} <= {lane.priority for lane in lines.active_lanes()})
    opened.set()
    await asyncio.gather(*[job.result(timeout="60s") for job in low])
    assert ran[1:3] == ["first", "high"]


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1, "c": 1}, {"a": 10, "b": 3, "c": 1}])
async def test_g12_queues_share_the_slots_by_their_weights(hw: Headway, weights) -> None:
    ran: list[str] = []

    @hw.task
    async def task(name: str) -> None:
        ran.append(name)

    total = sum(weights.values())
    for queue in weights:
        await task.using(queue=queue).enqueue_many([{"name": queue}] * total * 8)
    await hw.run_until_idle(queues=weights, concurrency=1)
    rounds = 6
    shares = Counter(ran[: total * rounds])
    for queue, weight in weights.items():
        assert abs(shares[queue] - weight * rounds) <= rounds, shares


async def test_g12_a_busy_queue_does_not_starve_a_quiet_one(hw: Headway, start) -> None:
    feeding = True

    @hw.task(queue="busy")
    async def busy() -> None:
        await asyncio.sleep(0)
        if feeding:
            await busy.enqueue()

    @hw.task(queue="quiet")
    async def quiet(n: int) -> int:
        return n

    start(concurrency=4, queues={"busy": 10, "quiet": 1})
    await busy.using(priority=100).enqueue_many([{}] * 200)
    for n in range(10):
        assert await (await quiet.enqueue(n)).result(timeout="60s") == n
    feeding = False


async def test_a_high_priority_of_one_queue_does_not_beat_another_queue(hw: Headway) -> None:
    ran: list[str] = []

    @hw.task
    async def task(name: str) -> None:
        ran.append(name)

    await task.using(queue="loud", priority=1_000).enqueue_many([{"name": "loud"}] * 40)
    await task.using(queue="calm").enqueue_many([{"name": "calm"}] * 40)
    await hw.run_until_idle(queues={"loud": 1, "calm": 1}, concurrency=1)
    assert Counter(ran[:20])["calm"] >= 8
