"""Producers that go on enqueueing through faults, and remember what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg

from headway import Headway
from headway.errors import DatabaseUnavailable


class Producers:
    """How each call ended: `made` are those that returned, `unsure` those that raised."""

    def __init__(self) -> None:
        self.made: dict[int, UUID] = {}
        self.unsure: list[int] = []
        self._next = 0
        self._done = False

    async def produce(self, app: Headway) -> None:
        while not self._done:
            self._next += 1
            n = self._next
            try:
                self.made[n] = (await app.tasks["pause"].enqueue(n)).id
            except DatabaseUnavailable:
                self.unsure.append(n)
            await asyncio.sleep(0.005)

    def stop(self) -> None:
        self._done = True

    def assert_kept(self, db: psycopg.Connection[Any]) -> None:
        """A call that returned made one job, one that raised made one or none; all have finished once."""
        rows = db.execute("select (input->>'n')::int, id, label(state) from archive").fetchall()
        found = {n: id_ for n, id_, _ in rows}
        assert len(found) == len(rows), "made or settled twice"
        assert {state for _, _, state in rows} == {"succeeded"}
        assert self.made.items() - found.items() == set(), "lost"
        assert found.keys() - self.made.keys() <= set(self.unsure), "nobody made these"
        assert db.execute("select count(*) from job").fetchone() == (0,)


@asynccontextmanager
async def producing(app: Headway, how_many: int) -> AsyncIterator[Producers]:
    """Producers at work until the block ends."""
    producers = Producers()
    async with asyncio.TaskGroup() as group:
        for _ in range(how_many):
            group.create_task(producers.produce(app))
        yield producers
        producers.stop()
