"""The duties of the fleet, done by the one worker that has them: data, and a loop over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headway.core.clock import Clock, monotonic
from headway.engine.claiming.scan import ScanBudget
from headway.engine.service import Service, log
from headway.store import controls, counts, fleet, jobs
from headway.store.connect import Target
from headway.store.jobs import Moment
from headway.store.link import Link
from headway.store.statement import Statement

_BATCH = 1000
_TALLIED = 50_000


@dataclass(slots=True)
class Sweep:
    """One duty: what to run, how often, and how to say what it did (nothing said, nothing to do)."""

    name: str
    statement: Callable[[Moment], Statement[Any]]
    every: float
    did: Callable[[Any], str | None]
    due_at: float = 0.0


def sweeps(target: Target, lease: float) -> list[Sweep]:
    """Every duty but promotion, which has a moment of its own."""
    return [
        Sweep(
            "rescue",
            lambda now: jobs.rescue(target, _BATCH, now),
            min(1.0, lease / 6),
            lambda done: (
                f"took {done[0] + done[1]} jobs back from lost workers; {done[1]} had no attempt left"
                if any(done)
                else None
            ),
        ),
        Sweep(
            "expire",
            lambda now: jobs.expire(target, _BATCH, now),
            1.0,
            lambda done: f"expired {done} jobs" if done else None,
        ),
        Sweep("tally", lambda now: counts.tally(_TALLIED, now), 5.0, lambda done: None),
        Sweep("limits", lambda now: controls.mark_limited(), 5.0, lambda done: None),
        Sweep("forget", lambda now: fleet.forget(now), 300.0, lambda done: None),
        Sweep(
            "partitions",
            lambda now: fleet.partitions(now),
            600.0,
            lambda done: f"made {done[0]} partitions, dropped {done[1]}" if any(done) else None,
        ),
    ]


class Duty(Service):
    """A service that does more, or anything at all, while the fleet's duty is this worker's."""

    def __init__(self, link: Link, clock: Clock) -> None:
        super().__init__()
        self._link = link
        self._clock = clock
        self._on_duty = False
        self._owed = False
        """Something was said that only a full scan is sure to find."""

    def duty(self, ours: bool) -> None:
        if ours and not self._on_duty:
            self._owed = True
            self.wake()
        self._on_duty = ours

    def hint(self) -> None:
        """There may be something to do, for the worker whose duty it is."""
        if self._on_duty:
            self._owed = True
            self.wake()


class Sweeper(Duty):
    """Runs each sweep when it is due, for as long as the duty is ours."""

    def __init__(self, link: Link, clock: Clock, duties: list[Sweep]) -> None:
        super().__init__(link, clock)
        self._duties = duties

    async def turn(self) -> float | None:
        if not self._on_duty:
            return None
        for sweep in self._duties:
            if sweep.due_at <= monotonic():
                done = await self._link.run(sweep.statement(self._clock.now()))
                if did := sweep.did(done):
                    log.info("%s: %s", sweep.name, did)
                sweep.due_at = monotonic() + sweep.every
        return max(0.01, min(sweep.due_at for sweep in self._duties) - monotonic())


class Promoter(Duty):
    """Makes scheduled jobs ready at their moment.

    The worker on duty sleeps until exactly the next one; the others look now and then, as a net.
    """

    def __init__(self, link: Link, clock: Clock, net: float) -> None:
        super().__init__(link, clock)
        self._net = net
        self.poll = net
        """How long the worker on duty sleeps at most: less where nothing new is heard of."""
        self._since: datetime | None = None
        self._budget = ScanBudget()

    async def turn(self) -> float | None:
        began, full = monotonic(), self._budget.allows()
        owed, self._owed = self._owed, False
        since = None if full else self._since
        try:
            promoted = await self._link.run(
                jobs.promote(self._link.target, since, _BATCH, self._clock.now())
            )
        except BaseException:
            self._owed |= owed
            raise
        if full:
            self._budget.spent(monotonic() - began)
        self._since = promoted.last_run_at or self._since
        self._owed |= owed and not full
        if promoted.count == _BATCH:
            return 0
        if not self._on_duty:
            return self._net
        due_in = self.poll if promoted.next_due_in is None else promoted.next_due_in
        return min(due_in, self.poll, self._budget.wait() if self._owed else self.poll)
