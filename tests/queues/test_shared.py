"""Queues that share the slots of a worker: turns by weight, priority within each, strict if asked for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from headway import Headway
from headway.errors import ConfigError
from tests.support import DEADLINE, Running, eventually


class Starts(list[str]):
    """The queues of jobs, in the order in which they were started."""

    def share(self, start: int, stop: int) -> Counter[str]:
        return Counter(self[start:stop])


@pytest.fixture
def ran() -> Starts:
    return Starts()


@pytest.fixture
def task(hw: Headway, ran: Starts):
    @hw.task
    async def task(queue: str) -> None:
        ran.append(queue)

    return task


@pytest.mark.parametrize("concurrency", [4, 20])
async def test_g12_starts_are_shared_by_weight_however_many_slots_there_are(
    hw: Headway, task, ran: Starts, concurrency: int
) -> None:
    weights = {"mail": 5, "default": 2, "slow": 1}
    for queue in weights:
        await task.using(queue=queue).enqueue_many([{"queue": queue}] * 120)
    await hw.run_until_idle(queues=weights, concurrency=concurrency)
    assert len(ran) == 360
    share = ran.share(0, 160)  # until then there is a backlog in each
    for queue, weight in weights.items():
        # Jobs of one claim start together, so the order within it says nothing.
        assert share[queue] == pytest.approx(160 * weight / 8, abs=12), share


async def test_g12_a_queue_that_comes_late_takes_turns_from_then_on(
    hw: Headway, ran: Starts, start: Callable[..., Running]
) -> None:
    @hw.task(queue="late")
    async def late() -> None:
        ran.append("late")

    @hw.task(queue="early")
    async def early(n: int) -> None:
        ran.append("early")
        if n == 40:
            await late.enqueue_many([{}] * 100)

    await early.enqueue_many({"n": n} for n in range(400))
    start(queues={"early": 1, "late": 1}, concurrency=4)
    await eventually(lambda: ran.count("late") == 100)
    joined = ran.index("late")
    assert joined > 40
    share = ran.share(joined, joined + 100)
    assert share["late"] == pytest.approx(50, abs=4), "neither behind the others nor ahead of them"


async def test_what_a_queue_leaves_is_for_the_others(hw: Headway, start) -> None:
    """The weight is a share of what is asked for, not a part of the slots set aside."""
    inside, opened = Counter[str](), asyncio.Event()

    @hw.task
    async def hold(queue: str) -> None:
        inside[queue] += 1
        await opened.wait()

    start(queues={"heavy": 1_000, "light": 1}, concurrency=20)
    await hold.using(queue="light").enqueue_many([{"queue": "light"}] * 30)
    await eventually(lambda: inside["light"] == 20)
    opened.set()
    await eventually(lambda: inside["light"] == 30)


async def test_g12_priority_is_strict_within_a_queue_and_not_between_queues(
    hw: Headway, start
) -> None:
    ran: list[tuple[str, int]] = []

    @hw.task
    async def task(queue: str, priority: int) -> None:
        ran.append((queue, priority))

    for queue, priorities in {"a": (0, 9), "b": (-5, 3)}.items():
        for priority in priorities:
            await task.using(queue=queue, priority=priority).enqueue_many(
                [{"queue": queue, "priority": priority}] * 50
            )
    await hw.run_until_idle(queues={"a": 1, "b": 1}, concurrency=10)
    for queue, (low, high) in {"a": (0, 9), "b": (-5, 3)}.items():
        assert [p for q, p in ran if q == queue] == [high] * 50 + [low] * 50
    assert Counter(q for q, _ in ran[:60])["b"] == pytest.approx(30, abs=10)


async def test_strict_serves_a_queue_only_while_those_before_it_are_empty(
    hw: Headway, task, ran: Starts
) -> None:
    order = ["urgent", "normal", "low"]
    for queue in reversed(order):
        await task.using(queue=queue).enqueue_many([{"queue": queue}] * 12)
    await hw.run_until_idle(queues=dict.fromkeys(order, 1), order="strict", concurrency=3)
    assert ran == ["urgent"] * 12 + ["normal"] * 12 + ["low"] * 12


async def test_strict_lets_what_comes_into_an_earlier_queue_overtake(
    hw: Headway, ran: Starts, start: Callable[..., Running]
) -> None:
    inside, opened = asyncio.Event(), asyncio.Event()

    @hw.task
    async def task(name: str) -> None:
        ran.append(name)
        if name == "first":
            inside.set()
            await opened.wait()

    running = start(queues={"urgent": 1, "low": 100}, order="strict", concurrency=1)
    await task.using(queue="low").enqueue("first")
    await asyncio.wait_for(inside.wait(), DEADLINE)
    low = await task.using(queue="low").enqueue_many([{"name": "low"}] * 20)
    # The worker knows of this one when it has begun: the urgent ones are heard of behind it.
    urgent = await task.using(queue="urgent").enqueue_many([{"name": "urgent"}] * 5)
    await eventually(lambda: _heard(running, "urgent"))
    opened.set()
    await asyncio.gather(*[job.result(timeout=DEADLINE) for job in (*low, *urgent)])
    assert ran == ["first"] + ["urgent"] * 5 + ["low"] * 20


def _heard(running: Running, queue: str) -> bool:
    """Whether a worker knows that a queue may have something."""
    return queue in running.worker._claiming.planner.lines.active  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queues": {"mail": 0}}, "queue 'mail' has weight 0; it must be at least 1"),
        ({"queues": {" mail": 1}}, "queue ' mail' must be"),
        ({"dedicated": {"mail": 0}}, "queue 'mail' has 0 slots, not 1 to 100000"),
        ({"dedicated": {"*": 2}}, "not for '\\*'"),
        ({"queues": {"mail": 1}, "dedicated": {"mail": 1}}, "give one of them"),
        ({"order": "random"}, "order = 'random' is invalid: expected 'fair' or"),
    ],
)
async def test_what_cannot_be_served_is_refused_before_anything_is_asked(
    hw: Headway, task, options, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        hw.worker(**options)
