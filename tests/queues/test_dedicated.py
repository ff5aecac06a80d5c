"""Queues with slots of their own: nobody takes them, and they take nobody's."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from headway import Headway
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually


class Doors:
    """The jobs inside, by queue. They stay until the door of their queue is opened."""

    def __init__(self) -> None:
        self.inside = Counter[str]()
        self.most = Counter[str]()
        self._open: dict[str, asyncio.Event] = {}

    async def enter(self, queue: str) -> None:
        self.inside[queue] += 1
        self.most[queue] = max(self.most[queue], self.inside[queue])
        await self._door(queue).wait()
        self.inside[queue] -= 1

    def open(self, *queues: str) -> None:
        for queue in queues:
            self._door(queue).set()

    def _door(self, queue: str) -> asyncio.Event:
        return self._open.setdefault(queue, asyncio.Event())


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture
def hold(hw: Headway, doors: Doors):
    @hw.task
    async def hold(queue: str) -> str:
        await doors.enter(queue)
        return queue

    return hold


async def _fill(hold, queue: str, number: int):
    return await hold.using(queue=queue).enqueue_many([{"queue": queue}] * number)


async def test_a_dedicated_queue_is_served_while_all_shared_slots_are_taken(
    hw: Headway, hold, doors: Doors, start: Callable[..., Running]
) -> None:
    start(queues={"mail": 1}, dedicated={"reports": 2}, concurrency=3)
    await _fill(hold, "mail", 20)
    await eventually(lambda: doors.inside["mail"] == 3)
    jobs = await _fill(hold, "reports", 10)
    await eventually(lambda: doors.inside["reports"] == 2)
    doors.open("reports")
    assert [await job.result(timeout=DEADLINE) for job in jobs] == ["reports"] * 10
    assert doors.most == {"mail": 3, "reports": 2}, "the shared ones used none of its slots"
    doors.open("mail")


async def test_shared_queues_are_served_while_a_dedicated_one_is_full(
    hw: Headway, hold, doors: Doors, hand: Hand, start: Callable[..., Running]
) -> None:
    start(queues={"mail": 1}, dedicated={"reports": 2, "exports": 1}, concurrency=50)
    await _fill(hold, "reports", 20)
    await _fill(hold, "exports", 20)
    await eventually(lambda: doors.inside == {"reports": 2, "exports": 1})
    doors.open("mail")
    for job in await _fill(hold, "mail", 60):
        assert await job.result(timeout=DEADLINE) == "mail"
    # All those free slots, and it was asked often enough: what runs is what has a slot.
    assert doors.inside == {"reports": 2, "exports": 1, "mail": 0}
    assert hand.value("select count(*) from job where state = 'x'") == 3
    doors.open("reports", "exports")
    await eventually(lambda: hand.value("select count(*) from job") == 0)
    assert (doors.most["reports"], doors.most["exports"]) == (2, 1)


async def test_a_slot_of_its_own_is_filled_again_as_soon_as_it_is_free(
    hw: Headway, hold, doors: Doors, start: Callable[..., Running]
) -> None:
    """With a poll of an hour, whatever is claimed was claimed because a slot became free."""
    start(dedicated={"reports": 1}, poll="1h", poll_alone="1h")
    doors.open("reports")
    jobs = await _fill(hold, "reports", 20)
    await asyncio.gather(*[job.result(timeout=DEADLINE) for job in jobs])
    assert doors.most["reports"] == 1


async def test_dedicated_queues_alone_have_only_their_slots(
    hw: Headway, hold, doors: Doors, hand: Hand, start: Callable[..., Running]
) -> None:
    start(dedicated={"reports": 2, "exports": 3}, concurrency=100)
    await eventually(lambda: hand.rows("select id from worker"))
    row = hand.row("select slots, queues from worker")
    assert row == {"slots": 5, "queues": ["reports", "exports"]}
    doors.open("reports", "default")
    other = await hold.enqueue("default")
    for job in await _fill(hold, "reports", 5):
        await job.result(timeout=DEADLINE)
    assert (await other.status()).state == "ready", "what is named is served, nothing else"


async def test_a_worker_has_the_slots_of_both_kinds(
    hw: Headway, hold, hand: Hand, start: Callable[..., Running]
) -> None:
    start(queues={"mail": 1}, dedicated={"reports": 2}, concurrency=7)
    await eventually(lambda: hand.rows("select id from worker"))
    assert hand.row("select slots, queues from worker") == {
        "slots": 9,
        "queues": ["mail", "reports"],
    }


async def test_a_flow_takes_the_slot_of_the_queue_where_each_step_is(
    hw: Headway, doors: Doors, hand: Hand, start: Callable[..., Running]
) -> None:
    flow = hw.flow("report", queue="mail")

    @flow.step
    async def gather(n: int):
        return render.next(n=n)

    @flow.step(queue="reports")
    async def render(n: int) -> int:
        await doors.enter("reports")
        return n

    start(queues={"mail": 1}, dedicated={"reports": 2}, concurrency=1)
    jobs = [await flow.enqueue(n) for n in range(8)]
    # All of them pass the one shared slot, though two of them stay in slots of their own.
    ready = "select count(*) from job where step = 'render'"
    await eventually(lambda: hand.value(ready) == 8 and doors.inside["reports"] == 2)
    doors.open("reports")
    assert [await job.result(timeout=DEADLINE) for job in jobs] == list(range(8))
    assert doors.most["reports"] == 2


async def test_threads_of_both_kinds_of_slots_run_at_once(hw: Headway, hand: Hand, start) -> None:
    """A plain function has a thread: there are as many as slots."""
    together = threading.Barrier(4, timeout=DEADLINE)

    @hw.task
    def meet() -> str:
        together.wait()
        return "met"

    start(queues={"mail": 1}, dedicated={"reports": 2}, concurrency=2)
    jobs = [await meet.using(queue=queue).enqueue() for queue in ("mail", "reports") * 2]
    assert [await job.result(timeout=DEADLINE) for job in jobs] == ["met"] * 4


async def test_g12_a_task_with_few_slots_is_not_kept_from_a_dedicated_queue_by_a_long_one(
    hw: Headway, start: Callable[..., Running]
) -> None:
    ran: list[str] = []

    @hw.task(slots=1)
    async def narrow(queue: str) -> None:
        ran.append(queue)

    await narrow.using(queue="mail").enqueue_many([{"queue": "mail"}] * 300)
    job = await narrow.using(queue="reports").enqueue("reports")
    start(queues={"mail": 1}, dedicated={"reports": 2})
    await job.result(timeout=DEADLINE)
    assert ran.index("reports") < 100, "it did not wait for the end of the other queue"
