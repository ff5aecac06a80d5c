"""Which queues a worker serves, in which turn, and the defaults of both sides."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from typing import Any

import psycopg
import pytest

from headway import Headway, WorkerOptions
from headway.engine.claiming.fair_share import Turns
from headway.errors import ConfigError
from tests.reference.scenes import work_of
from tests.support import DEADLINE, eventually

QUEUES = ("a", "b", "c")


def _three(hw: Headway) -> list[Any]:
    """A task in each of three queues."""

    async def work(number: int = 0) -> int:
        return number

    return [hw.task(name=queue, queue=queue)(work) for queue in QUEUES]


def _heavy() -> None:
    """A process imports it."""


@pytest.mark.parametrize(
    ("options", "served"),
    [
        ({}, "abc"),
        ({"queues": {"a": 1, "b": 1}}, "ab"),
        ({"queues": {"a": 1, "b": 1}, "dedicated": {"c": 1}}, "abc"),
        ({"queues": {"a": 1}, "dedicated": {"b": 1}}, "ab"),
        ({"queues": {"*": 1}, "dedicated": {"b": 1}}, "abc"),
        ({"dedicated": {"b": 1}}, "b"),
    ],
)
async def test_r8_a_worker_serves_the_queues_it_names_else_those_of_its_tasks(
    hw: Headway, options: Any, served: str
) -> None:
    """Roadster: a configured set replaces the registered one, and dedicated queues leave it. Headway:
    the same, but that one who names only dedicated queues serves those; `*` is for all others."""
    jobs = [await task.enqueue() for task in _three(hw)]
    await hw.run_until_idle(**options)
    states = [(await job.status()).state for job in jobs]
    assert "".join(q for q, state in zip(QUEUES, states, strict=True) if state == "succeeded") == (
        served
    )


def test_r8_a_queue_is_shared_or_dedicated(hw: Headway) -> None:
    """Roadster: a queue that is in both leaves the shared set. Headway: who says both is asked which."""
    _three(hw)
    with pytest.raises(ConfigError, match="'a' has a weight and slots of its own"):
        hw.worker(queues={"a": 1, "b": 1}, dedicated={"a": 2})


async def test_r8_a_dedicated_queue_has_slots_of_its_own(hw: Headway, start: Any) -> None:
    """Roadster: worker tasks of its own. Headway: slots: neither side takes those of the other."""
    running, release = Counter[str](), asyncio.Event()

    async def hold(queue: str) -> None:
        running[queue] += 1
        await release.wait()

    for queue in ("a", "b"):
        task = hw.task(name=queue, queue=queue)(hold)
        await task.enqueue_many([{"queue": queue}] * 5)
    jobs_of_a = hw.tasks["a"]
    start(queues={"a": 1}, dedicated={"b": 2}, concurrency=3)
    await eventually(lambda: running == {"a": 3, "b": 2})
    status = await hw.queues.metrics()
    assert {row.name: (row.running, row.ready) for row in status} == {"a": (3, 2), "b": (2, 3)}
    release.set()
    last = await jobs_of_a.enqueue(queue="a")
    await last.result(timeout=DEADLINE)


def test_r9_the_queue_that_is_furthest_behind_comes_first() -> None:
    """Roadster: a heap by the next fetch. Headway: a clock for each queue, the slower the more weight."""
    turns = Turns({"a": 1, "b": 1, "c": 2}, strict=False)
    for queue, count in (("a", 2), ("b", 1), ("c", 1)):
        turns.join(queue)
        turns.served(queue, count)
    assert turns.shares(1) == [("c", 1)]


def test_r10_a_queue_that_was_served_goes_behind_the_others() -> None:
    """Roadster: changing the head's time reorders. Headway: being served does, by weight."""
    turns = Turns({"a": 1, "b": 1, "c": 2}, strict=False)
    for queue in QUEUES:
        turns.join(queue)
    order = ""
    for _ in range(8):
        ((queue, _),) = turns.shares(1)
        turns.served(queue, 1)
        order += queue
    assert Counter(order) == {"a": 2, "b": 2, "c": 4}
    assert Counter(order[:4]) == Counter(order[4:])


async def test_r17_a_call_that_says_nothing_has_the_defaults(hw: Headway) -> None:
    """Roadster: no queue, and nothing else. Headway: default, 0, at once, five attempts, no end."""
    status = await (await work_of(hw).enqueue()).status()
    assert (status.queue, status.priority, status.state) == ("default", 0, "ready")
    assert (status.attempt, status.max_attempts) == (0, 5)
    assert status.run_at == status.created_at


async def test_r18_processes_are_one_for_each_core_and_slots_are_100(
    hw: Headway, start: Any, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roadster: as many worker tasks as cores. Headway: so many processes for tasks that need them; a
    slot costs next to nothing, so there are 100."""
    task = hw.task(name="heavy", executor="process")(_heavy)
    monkeypatch.setattr(sys.modules[__name__], "_heavy", task)
    work_of(hw)
    worker = start()
    (slots,) = await eventually(lambda: db.execute("select slots from worker").fetchone())
    assert slots == WorkerOptions().concurrency == 100
    assert worker.worker._claimer._slots_of == {"heavy": os.cpu_count()}
