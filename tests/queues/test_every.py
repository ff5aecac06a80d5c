"""`*`: whatever queues there are, also those that come into being later."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from headway import Headway
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually

NEVER = {"poll": "1h", "poll_alone": "1h"}
"""No net: what is picked up was heard of."""


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def task(hw: Headway, ran: list[str]):
    @hw.task
    async def task(name: str) -> str:
        ran.append(name)
        return name

    return task


async def test_it_serves_queues_that_are_there_and_those_that_come_later(
    hw: Headway, task, hand: Hand, start: Callable[..., Running]
) -> None:
    there = [await task.using(queue=f"there {n}").enqueue(str(n)) for n in range(3)]
    start(queues={"*": 1}, **NEVER)
    assert [await job.result(timeout=DEADLINE) for job in there] == ["0", "1", "2"]
    for queue in ("new", "größer 5,3", "default"):
        job = await task.using(queue=queue, priority=7).enqueue(queue)
        assert await job.result(timeout=DEADLINE) == queue
    assert hand.row("select queues from worker")["queues"] == ["*"]


async def test_it_finds_new_queues_by_looking_alone(hw: Headway, task, start) -> None:
    start(queues={"*": 1}, listen=False, poll_alone="20ms")
    for queue in ("one", "two"):
        job = await task.using(queue=queue).enqueue(queue)
        assert await job.result(timeout=DEADLINE) == queue


async def test_it_may_be_run_until_nothing_is_left_anywhere(hw: Headway, task, ran) -> None:
    for n in range(7):
        await task.using(queue=f"q{n}", delay="10ms" if n % 2 else None).enqueue(f"q{n}")
    report = await hw.run_until_idle(queues={"*": 1})
    assert report.total == 7
    assert sorted(ran) == [f"q{n}" for n in range(7)]


async def test_named_queues_have_their_weight_among_the_rest(hw: Headway, task, ran) -> None:
    for queue in ("mail", "x", "y"):
        await task.using(queue=queue).enqueue_many([{"name": queue}] * 60)
    await hw.run_until_idle(queues={"mail": 4, "*": 1}, concurrency=6)
    share = Counter(ran[:60])
    assert share["mail"] == pytest.approx(40, abs=5), share
    assert share["x"] == pytest.approx(10, abs=3), share


async def test_the_rest_does_not_take_the_slots_of_a_dedicated_queue(
    hw: Headway, start, hand: Hand
) -> None:
    inside, opened = Counter[str](), asyncio.Event()

    @hw.task
    async def hold(queue: str) -> None:
        inside[queue] += 1
        await opened.wait()

    start(queues={"*": 1}, dedicated={"reports": 2}, concurrency=3)
    for queue in ("reports", "a", "b"):
        await hold.using(queue=queue).enqueue_many([{"queue": queue}] * 10)
    await eventually(lambda: inside["reports"] == 2 and inside["a"] + inside["b"] == 3)
    assert hand.value("select count(*) from job where state = 'x'") == 5
    opened.set()
    await eventually(lambda: hand.value("select count(*) from job") == 0)


async def test_in_strict_order_the_rest_has_its_place(hw: Headway, task, ran) -> None:
    for queue in ("last", "b", "a", "first"):
        await task.using(queue=queue).enqueue_many([{"name": queue}] * 4)
    await hw.run_until_idle(queues={"first": 1, "*": 1, "last": 1}, order="strict", concurrency=2)
    assert (ran[:4], ran[-4:]) == (["first"] * 4, ["last"] * 4)
    assert Counter(ran[4:8]) == Counter(ran[8:12]) == {"a": 2, "b": 2}, "they take turns"


async def test_a_task_that_it_does_not_know_is_left_alone(hw: Headway, task, hand: Hand) -> None:
    unknown = hand.enqueue("of another app", queue="x")
    known = await task.using(queue="x").enqueue("known")
    await hw.run_until_idle(queues={"*": 1})
    assert await known.result(timeout=DEADLINE) == "known"
    assert hand.state(unknown) == "ready"


async def test_explain_does_not_say_that_no_worker_serves_the_queue(
    hw: Headway, task, hand: Hand, start
) -> None:
    start(queues={"*": 1})
    await eventually(lambda: hand.rows("select id from worker"))
    await hw.queues.pause("x")
    job = await task.using(queue="x").enqueue("x")
    told = hand.call("explain", job.id)
    assert "paused" in told
    assert "no worker" not in told


async def test_without_any_name_it_is_the_queues_of_the_tasks_and_no_other(
    hw: Headway, task, hand: Hand, start
) -> None:
    @hw.task(queue="mail")
    async def send() -> None: ...

    other = await task.using(queue="other").enqueue("other")
    start()
    await (await send.enqueue()).result(timeout=DEADLINE)
    assert await (await task.enqueue("x")).result(timeout=DEADLINE) == "x"
    assert sorted(hand.row("select queues from worker")["queues"]) == ["default", "mail"]
    assert (await other.status()).state == "ready"
