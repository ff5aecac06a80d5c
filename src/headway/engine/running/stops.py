"""Stops jobs that run here: those with a request to stop, and those whose claim was lost.

The database decides both. A notification only makes the worker check sooner (G15). A claim that no longer
exists is lost, never cancelled (G2).
"""

from __future__ import annotations

from headway.core.clock import monotonic
from headway.engine.heartbeat import beat_every
from headway.engine.running.executor import Executor
from headway.engine.service import Service
from headway.store.connections.engine_connection import EngineConnection
from headway.store.rows import Claim
from headway.store.statements import jobs

_HINTED_EVERY = 0.05
"""At least this many seconds between checks that follow hints: anybody can send hints."""


class Stops(Service):
    """Checks the claims of all jobs that run here, as often as the heartbeat and after hints."""

    def __init__(self, link: EngineConnection, executor: Executor, lease: float) -> None:
        super().__init__()
        self._link = link
        self._executor = executor
        self._every = beat_every(lease)
        self._all_checked_at = monotonic()
        self._checked_at = -_HINTED_EVERY
        self._hinted = set[str]()

    def hint(self, job_id: str) -> None:
        """Check this job soon: there may be a request to stop it."""
        if job_id in self._executor.running:
            self._hinted.add(job_id)
            self.wake()

    async def turn(self) -> float | None:
        now = monotonic()
        due = now >= self._all_checked_at + self._every
        if not due and self._hinted and now < self._checked_at + _HINTED_EVERY:
            return self._checked_at + _HINTED_EVERY - now
        if due or self._hinted:
            hinted, self._hinted = self._hinted, set[str]()
            self._checked_at = now
            running = [one.claim for one in self._executor.running.values()]
            claims = [claim for claim in running if due or claim.id in hinted]
            if claims:
                await self._check(claims)
            if due:
                self._all_checked_at = now
        return max(0.0, self._all_checked_at + self._every - monotonic())

    async def _check(self, claims: list[Claim]) -> None:
        held = await self._link.run(jobs.held(claims))
        for claim in claims:
            if claim.id not in held:
                self._executor.stop_claim(claim, "lost")
            elif held[claim.id]:
                self._executor.stop_claim(claim, "cancel")
