"""Never more at once than there are slots: of the worker, of a task."""

import asyncio
import threading
from collections import Counter

import pytest

from headway import Headway
from tests.support import DEADLINE


class Gauge:
    """How many were inside at once, by name."""

    def __init__(self) -> None:
        self.now = Counter[str]()
        self.most = Counter[str]()
        self.lock = threading.Lock()

    def enter(self, *names: str) -> None:
        with self.lock:
            for name in names:
                self.now[name] += 1
                self.most[name] = max(self.most[name], self.now[name])

    def leave(self, *names: str) -> None:
        with self.lock:
            for name in names:
                self.now[name] -= 1


@pytest.mark.parametrize("slots", [1, 3, 20])
async def test_a_worker_runs_no_more_jobs_at_once_than_it_has_slots(
    hw: Headway, slots: int
) -> None:
    gauge, full = Gauge(), asyncio.Event()

    @hw.task
    async def on_the_loop() -> None:
        gauge.enter("all")
        if gauge.now["all"] == slots:
            full.set()
        await full.wait()
        gauge.leave("all")

    @hw.task(queue="other")
    def in_a_thread() -> None:
        gauge.enter("all")
        gauge.leave("all")

    await on_the_loop.enqueue_many(
        on_the_loop.using(priority=n % 3).call() for n in range(slots * 10)
    )
    await in_a_thread.enqueue_many([{}] * slots * 5)
    report = await hw.run_until_idle(concurrency=slots)
    assert report.total == slots * 15
    assert gauge.most["all"] == slots


async def test_a_task_runs_no_more_jobs_at_once_than_it_has_slots(hw: Headway) -> None:
    gauge = Gauge()

    @hw.task(slots=2)
    async def narrow() -> None:
        gauge.enter("narrow")
        await asyncio.sleep(0.005)
        gauge.leave("narrow")

    @hw.task
    async def wide() -> None:
        gauge.enter("wide")
        await asyncio.sleep(0.005)
        gauge.leave("wide")

    await narrow.enqueue_many([{}] * 40)
    await wide.enqueue_many([{}] * 40)
    await hw.run_until_idle(concurrency=10)
    assert gauge.most["narrow"] == 2
    assert gauge.most["wide"] > 2


async def test_the_slots_of_a_task_hold_over_all_its_queues_and_priorities(hw: Headway) -> None:
    gauge = Gauge()

    @hw.task(slots=2)
    async def narrow() -> None:
        gauge.enter("narrow")
        await asyncio.sleep(0.003)
        gauge.leave("narrow")

    @hw.task(queue="b")
    async def other() -> None: ...

    await narrow.enqueue_many(
        narrow.using(priority=n % 5, queue=("default", "b")[n % 2]).call() for n in range(80)
    )
    report = await hw.run_until_idle()
    assert report.settled == {"succeed": 80}
    assert gauge.most["narrow"] == 2


async def test_several_tasks_with_slots_each_keep_to_their_own(hw: Headway) -> None:
    gauge = Gauge()

    def define(name: str, slots: int):
        @hw.task(name=name, slots=slots)
        async def task() -> None:
            gauge.enter(name, "all")
            await asyncio.sleep(0.002)
            gauge.leave(name, "all")

        return task

    tasks = [define("one", 1), define("two", 2), define("five", 5)]
    for task in tasks:
        await task.enqueue_many([{}] * 20)
    await hw.run_until_idle(concurrency=6)
    assert gauge.most["one"] == 1
    assert gauge.most["two"] == 2
    assert gauge.most["five"] <= 5
    assert gauge.most["all"] <= 6


async def test_a_task_whose_slots_are_full_does_not_hold_up_jobs_after_it(
    hw: Headway, start
) -> None:
    opened = asyncio.Event()

    @hw.task(slots=1)
    async def narrow() -> None:
        await opened.wait()

    @hw.task
    async def quick(n: int) -> int:
        return n

    start(concurrency=5)
    held = await narrow.enqueue_many([{}] * 200)
    jobs = await quick.enqueue_many({"n": n} for n in range(20))
    assert [await job.result(timeout="60s") for job in jobs] == list(range(20))
    opened.set()
    await asyncio.gather(*[job.result(timeout="60s") for job in held])


async def test_a_slot_is_filled_again_as_soon_as_it_is_free(hw: Headway, start) -> None:
    """With a poll of an hour, whatever is claimed was claimed because a slot became free."""

    @hw.task(slots=1)
    async def narrow(n: int) -> int:
        return n

    start(poll="1h", poll_alone="1h", concurrency=2)
    jobs = await narrow.enqueue_many({"n": n} for n in range(100))
    assert [await job.result(timeout="60s") for job in jobs] == list(range(100))


async def test_more_slots_than_one_batch_are_filled(hw: Headway, start) -> None:
    inside, opened = Counter[str](), asyncio.Event()
    full = asyncio.Event()

    @hw.task
    async def task() -> None:
        inside["n"] += 1
        if inside["n"] == 700:
            full.set()
        await opened.wait()

    start(concurrency=700, batch=100)
    await task.enqueue_many([{}] * 700)
    await asyncio.wait_for(full.wait(), DEADLINE)
    opened.set()
