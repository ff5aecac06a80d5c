"""Stopping jobs that run here: those that somebody asked to stop, and those whose claim was lost.

The database decides both. A notification only makes this look sooner (G15), and a claim that is
not there any more is lost, never cancelled (G2).
"""

from __future__ import annotations

from headway.core.clock import monotonic
from headway.engine.heartbeat import beat_every
from headway.engine.running.executor import Executor
from headway.engine.service import Service
from headway.store import jobs
from headway.store.link import Link
from headway.store.rows import Claim

_HINTED_EVERY = 0.05
"""Seconds between looks that somebody hints at: anybody can send hints."""


class Stops(Service):
    """Looks at the claims of everything that runs here, as often as the heart beats and when it hears
    of a request."""

    def __init__(self, link: Link, executor: Executor, lease: float) -> None:
        super().__init__()
        self._link = link
        self._executor = executor
        self._every = beat_every(lease)
        self._looked_at = monotonic()
        self._asked_at = -_HINTED_EVERY
        self._hinted = set[str]()

    def hint(self, job_id: str) -> None:
        """Somebody may have asked this job to stop."""
        if job_id in self._executor.running:
            self._hinted.add(job_id)
            self.wake()

    async def turn(self) -> float | None:
        now = monotonic()
        due = now >= self._looked_at + self._every
        if not due and self._hinted and now < self._asked_at + _HINTED_EVERY:
            return self._asked_at + _HINTED_EVERY - now
        if due or self._hinted:
            hinted, self._hinted = self._hinted, set[str]()
            self._asked_at = now
            running = [one.claim for one in self._executor.running.values()]
            claims = [claim for claim in running if due or claim.id in hinted]
            if claims:
                await self._look(claims)
            if due:
                self._looked_at = now
        return max(0.0, self._looked_at + self._every - monotonic())

    async def _look(self, claims: list[Claim]) -> None:
        held = await self._link.run(jobs.held(claims))
        for claim in claims:
            if claim.id not in held:
                self._executor.stop_claim(claim, "lost")
            elif held[claim.id]:
                self._executor.stop_claim(claim, "cancel")
