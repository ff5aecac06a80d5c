"""Shared by tests, other than fixtures: waiting for a fact, and workers in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from headway.engine.jobs.settler import WorkerReport
from headway.engine.worker import Worker

T = TypeVar("T")

DEADLINE = 90.0
"""How long a test waits for something that must happen; reached only when it does not."""


class Running:
    """A worker running on this loop."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._task = asyncio.create_task(worker.run())

    async def stop(self) -> WorkerReport:
        self.worker.stop()
        return await self._task

    def done(self) -> bool:
        return self._task.done()


async def eventually(fact: Callable[[], Awaitable[T] | T], *, within: float = DEADLINE) -> T:
    """The first true answer of `fact`; fails if there is none in time.

    For facts that only the database shows. Where the code under test can give a signal, wait for
    that instead.
    """
    deadline = time.monotonic() + within
    while True:
        answer: Any = fact()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not true within {within} s; last answer {answer!r}"
        await asyncio.sleep(0.01)


def eventually_sync(fact: Callable[[], T], *, within: float = DEADLINE) -> T:
    """As `eventually`, where no loop runs."""
    deadline = time.monotonic() + within
    while not (answer := fact()):
        assert time.monotonic() < deadline, f"not true within {within} s; last answer {answer!r}"
        time.sleep(0.01)
    return answer
