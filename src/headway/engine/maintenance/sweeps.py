"""The sweeps of the fleet, run by the leader: data, and a loop over it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from headway.core.clock import Clock, monotonic
from headway.engine.claiming.scan import ScanBudget
from headway.engine.service import Service, log
from headway.engine.track import Track
from headway.errors import DatabaseUnavailable, HeadwayError
from headway.store import controls, counts, fleet, jobs
from headway.store.faults import is_held_up
from headway.store.jobs import Moment
from headway.store.link import Link
from headway.store.statement import Statement

_BATCH = 1000
_TALLIED = 50_000
_NAMED = 10
_HURRIED_EVERY = 0.1
_AGAIN = 1.0
"""Seconds until a sweep that has more to do runs again."""
_LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class Sweep:
    """One sweep: what to run and how often. It says itself what it did, and whether there is more
    to do."""

    name: str
    run: Callable[[Moment], Awaitable[bool]]
    every: float
    due_at: float = 0.0
    ran_at: float = 0.0
    pause: float = 0.0
    """How long it rests after a failure; 0 while it works."""
    track: Track = field(init=False)

    def __post_init__(self) -> None:
        self.track = Track(f"sweep {self.name}")


def sweeps(link: Link, lease: float) -> list[Sweep]:
    """Return every sweep but promotion, which has a moment of its own."""
    return [
        Sweep("rescue", partial(_rescue, link), min(1.0, lease / 6)),
        Sweep("stops", partial(_stop, link), 1.0),
        Sweep("expire", partial(_expire, link), 1.0),
        Sweep("tally", partial(_run, link, partial(counts.tally, _TALLIED)), 5.0),
        Sweep("limits", partial(_run, link, lambda _: controls.mark_limited()), 5.0),
        Sweep("forget", partial(_run, link, fleet.forget), 300.0),
        Sweep("partitions", partial(_partitions, link), 600.0),
    ]


async def _run(link: Link, statement: Callable[[Moment], Statement[Any]], now: Moment) -> bool:
    await link.run(statement(now))
    return False


async def _rescue(link: Link, now: Moment) -> bool:
    """Take the jobs of lost workers back. A job that fails for good is an error, as any other
    failure is."""
    rescued = await link.run(jobs.rescue(link.target, _BATCH, now))
    lost = {(job.worker_id, job.worker_name): job.crashed for job in rescued}
    for (worker, name), crashed in lost.items():
        ids = [job.id for job in rescued if job.worker_id == worker]
        log.warning(
            "worker %d (%s) %s; took back %d %s: %s",
            worker, name, "was lost" if crashed else "gave up its jobs",
            len(ids), "job" if len(ids) == 1 else "jobs", _some(ids),
        )  # fmt: skip
    for job in rescued:
        if job.came_to == "f":
            handler = f"{job.task}/{job.step}" if job.step else job.task
            log.error(
                "%s %s failed: WorkerLost: worker %d (%s)",
                handler, job.id, job.worker_id, job.worker_name,
                extra={"job_id": job.id, "task": job.task, "step": job.step},
            )  # fmt: skip
    return False


async def _stop(link: Link, now: Moment) -> bool:
    """Cancel jobs that wait although they were asked to stop: they ran, or were locked, when they
    were asked."""
    asked = await link.run(jobs.asked(_BATCH))
    if asked:
        await link.run(jobs.cancel(link.target, asked, now))
        log.info("cancelled %d jobs that were asked to stop: %s", len(asked), _some(asked))
    return False


async def _expire(link: Link, now: Moment) -> bool:
    expired = await link.run(jobs.expire(link.target, _BATCH, now))
    if expired:
        log.info("expired %d jobs", expired)
    return False


async def _partitions(link: Link, now: Moment) -> bool:
    made, dropped, rows = await link.run(fleet.partitions(now))
    if made or dropped or rows:
        log.info("made %d partitions, dropped %d; moved or deleted %d rows", made, dropped, rows)
    return made > 0 or dropped > 0 or rows >= fleet.MOST_ROWS


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")


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
    """Runs each sweep when it is due, for as long as this worker is the leader.

    A sweep that fails rests by itself: the others run (G8).
    """

    def __init__(self, link: Link, clock: Clock, sweeps: list[Sweep]) -> None:
        super().__init__(link, clock)
        self._sweeps = sweeps

    def tracks(self) -> list[Track]:
        """How the turns go, and each sweep: one may keep failing while the others work."""
        return [*super().tracks(), *(sweep.track for sweep in self._sweeps)]

    def hurry(self, name: str) -> None:
        """Run a sweep soon: at once, or a little after it last ran, because anybody can hint."""
        for sweep in self._sweeps:
            if sweep.name == name and not sweep.pause:
                sweep.due_at = min(sweep.due_at, sweep.ran_at + _HURRIED_EVERY)
        self.wake()

    def hold_back(self, name: str, seconds: float) -> None:
        """Run a sweep no earlier than in `seconds`."""
        for sweep in self._sweeps:
            if sweep.name == name:
                sweep.due_at = max(sweep.due_at, monotonic() + seconds)

    async def turn(self) -> float | None:
        if not self._on_duty:
            return None
        for sweep in self._sweeps:
            if sweep.due_at <= monotonic():
                sweep.track.began()
                try:
                    more = await sweep.run(self._clock.now())
                except Exception as error:
                    if isinstance(error, DatabaseUnavailable) and not is_held_up(error):
                        raise
                    self._failed(sweep, error)
                else:
                    sweep.track.works()
                    sweep.pause = 0.0
                    sweep.ran_at = monotonic()
                    sweep.due_at = sweep.ran_at + (_AGAIN if more else sweep.every)
        return max(0.01, min(sweep.due_at for sweep in self._sweeps) - monotonic())

    def _failed(self, sweep: Sweep, error: Exception) -> None:
        sweep.track.failed(error, expected=isinstance(error, HeadwayError))
        sweep.pause = min(max(sweep.every, sweep.pause * 2), _LONGEST_PAUSE)
        sweep.due_at = monotonic() + sweep.pause


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
