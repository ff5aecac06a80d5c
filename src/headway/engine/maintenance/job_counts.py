"""Counting live jobs where there are too many for whoever asks to count them."""

from __future__ import annotations

from collections import Counter

from headway.core.clock import Clock, monotonic
from headway.engine.claiming.scan import ScanBudget
from headway.engine.maintenance.sweeps import Duty
from headway.store import counts
from headway.store.link import Link

LONG = 8192
"""Pages beyond which the table is not counted whole when someone asks (functions/2_metrics.sql)."""
_PART = 512
"""Pages at a time: some milliseconds, so that the time it takes is spread evenly."""
_LOOK_AGAIN = 30.0
_PAUSE = 5.0


class Census(Duty):
    """Walks the table of live jobs, a part at a time and for at most 5 % of the time, and keeps the sums.

    While the table is short there is nothing to do. What moves meanwhile may be counted twice or not
    at all: the numbers are for people and their monitoring.
    """

    def __init__(self, link: Link, clock: Clock, *, long: int = LONG, part: int = _PART) -> None:
        super().__init__(link, clock)
        self._long = long
        self._part = part
        self._pages = 0
        self._first = 0
        self._sums = Counter[tuple[str, str]]()
        self._kept = True
        """There may be a census from before."""
        self._budget = ScanBudget()

    async def turn(self) -> float | None:
        if not self._on_duty:
            self._begin()
            return None
        if self._pages <= self._long:
            self._pages = (await self._link.run(counts.counted(0, 0))).pages
            if self._pages <= self._long:
                if self._kept:
                    await self._link.run(counts.census({}, self._clock.now()))
                    self._kept = False
                return _LOOK_AGAIN
        return await self._count()

    async def _count(self) -> float:
        """Counts one part; with the last one, keeps what was found."""
        began = monotonic()
        found = await self._link.run(counts.counted(self._first, self._first + self._part))
        self._sums.update(found.counts)
        self._first += self._part
        self._pages = found.pages
        done = self._first >= found.pages
        if done:
            await self._link.run(counts.census(self._sums, self._clock.now()))
            self._kept = True
            self._begin()
        self._budget.spent(monotonic() - began)
        return max(_PAUSE, self._budget.wait()) if done else self._budget.wait()

    def _begin(self) -> None:
        self._first = 0
        self._sums.clear()
