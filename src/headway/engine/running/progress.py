"""Writes the newest progress of each job to the database, at most twice per second."""

from __future__ import annotations

from typing import Any

from headway.core.clock import monotonic
from headway.engine.service import Service
from headway.store.connections.engine_connection import EngineConnection
from headway.store.rows import Claim
from headway.store.statements import jobs

_AT_MOST_EVERY = 0.5


class ProgressWriter(Service):
    """Writes the progress that handlers report. Best effort: a failed write is not repeated."""

    def __init__(self, connection: EngineConnection) -> None:
        super().__init__()
        self._connection = connection
        self._progress: dict[str, tuple[Claim, dict[str, Any]]] = {}
        """The newest progress of each job that is not written yet."""
        self._next_at = 0.0

    def note(self, claim: Claim, progress: dict[str, Any]) -> None:
        """Write this progress soon, instead of an earlier one of the job."""
        self._progress[claim.id] = (claim, progress)
        self.wake()

    def forget(self, job_id: str) -> None:
        """The job has ended."""
        self._progress.pop(job_id, None)

    async def turn(self) -> float | None:
        if (early := self._next_at - monotonic()) > 0:
            return early
        progress, self._progress = list(self._progress.values()), {}
        if progress:
            self._next_at = monotonic() + _AT_MOST_EVERY
            await self._connection.run(jobs.progress(progress))
        return None
