"""Counting live jobs ahead of time, where there are too many to count them on request."""

from __future__ import annotations

from collections import Counter

from headway.core.clock import Clock, monotonic
from headway.engine.claiming.scan import ScanBudget
from headway.engine.maintenance.leader import LeaderService
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statements import counts

LONG = 8192
"""A table of more pages is not counted on request (functions/2_metrics.sql)."""
_PART = 512
"""Pages to count at a time: a few milliseconds, so that the work is spread evenly."""
_CHECK_AGAIN = 30.0
_PAUSE = 5.0


class JobCounter(LeaderService):
    """Reads the table of live jobs in parts, for at most 5 % of the time, and stores the sums.

    While the table is short there is nothing to do. A job that moves meanwhile may be counted twice or
    not at all: the numbers are for people and their monitoring.
    """

    def __init__(
        self, connection: EngineConnection, clock: Clock, *, long: int = LONG, part: int = _PART
    ) -> None:
        super().__init__(connection, clock)
        self._long = long
        self._part = part
        self._pages = 0
        self._first = 0
        self._sums = Counter[tuple[str, str]]()
        self._stored = True
        """The database may have sums from before."""
        self._budget = ScanBudget()

    async def turn(self) -> float | None:
        if not self._leads:
            self._begin()
            return None
        if self._pages <= self._long:
            self._pages = (await self._connection.run(counts.counted(0, 0))).pages
            if self._pages <= self._long:
                if self._stored:
                    await self._connection.run(counts.job_counts({}, self._clock.now()))
                    self._stored = False
                return _CHECK_AGAIN
        return await self._count()

    async def _count(self) -> float:
        """Count one part. After the last one, store the sums."""
        began = monotonic()
        found = await self._connection.run(counts.counted(self._first, self._first + self._part))
        self._sums.update(found.counts)
        self._first += self._part
        self._pages = found.pages
        done = self._first >= found.pages
        if done:
            await self._connection.run(counts.job_counts(self._sums, self._clock.now()))
            self._stored = True
            self._begin()
        self._budget.spent(monotonic() - began)
        return max(_PAUSE, self._budget.wait()) if done else self._budget.wait()

    def _begin(self) -> None:
        self._first = 0
        self._sums.clear()
