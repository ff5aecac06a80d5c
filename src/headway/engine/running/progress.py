"""Progress on its way to the database: the newest note of each job, a few times a second at most."""

from __future__ import annotations

from headway.core.clock import monotonic
from headway.engine.running.executor import Executor
from headway.engine.service import Service
from headway.store import jobs
from headway.store.link import Link

_AT_MOST_EVERY = 0.5


class Notes(Service):
    """Writes what handlers say of their progress. Best effort: a note that fails is not repeated."""

    def __init__(self, link: Link, executor: Executor) -> None:
        super().__init__()
        self._link = link
        self._executor = executor
        self._next_at = 0.0

    async def turn(self) -> float | None:
        if (early := self._next_at - monotonic()) > 0:
            return early
        notes = self._executor.take_notes()
        if notes:
            self._next_at = monotonic() + _AT_MOST_EVERY
            await self._link.run(jobs.progress(notes))
        return None
