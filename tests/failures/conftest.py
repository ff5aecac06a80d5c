"""Jobs that fail without a worker, and streams that a thread reads during the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway import Failure, Headway
from headway.failures import Since
from tests.support import eventually


class Stream:
    """The failures that one `hw.failures()` has yielded so far."""

    def __init__(self, hw: Headway, since: Since | None) -> None:
        self.heard: list[Failure] = []
        self._hw = hw
        self._failures = hw.failures(since)
        self._task = asyncio.create_task(self._listen())

    @property
    def ids(self) -> list[UUID]:
        return [failure.job_id for failure in self.heard]

    async def listens(self) -> Stream:
        """Returns once it has looked and waits for more."""
        results = await self._hw._session.results()
        await eventually(lambda: "failed" in results._waiting)
        return self

    async def told(self, *expected: UUID) -> None:
        """Wait for this many failures, and check that they are these, each once."""
        await eventually(lambda: len(self.heard) >= len(expected) or self._task.done())
        assert self.ids == list(expected)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._failures.aclose()

    async def _listen(self) -> None:
        async for failure in self._failures:
            self.heard.append(failure)


@pytest.fixture
async def stream(hw: Headway) -> AsyncIterator[Callable[..., Stream]]:
    """Listens to failures; what still listens is closed after the test."""
    made: list[Stream] = []

    def start(since: Since | None = None, app: Headway = hw) -> Stream:
        made.append(Stream(app, since))
        return made[-1]

    yield start
    for one in made:
        await one.close()


def fail(conn: psycopg.Connection[Any], why: str = "no", task: str = "mail") -> UUID:
    """Makes a job and fails it for good, by SQL, in this connection's transaction."""
    query = "select enqueue(%s, jsonb_build_object('why', %s::text), max_attempts => 1)"
    (made,) = conn.execute(query, (task, why)).fetchone() or (None,)
    claimed = conn.execute("select id, claim from claim('default', 1)").fetchone()
    assert claimed is not None
    assert claimed[0] == made
    assert conn.execute("select fail(%s, %s, %s)", (*claimed, why)).fetchone() == (True,)
    return claimed[0]
