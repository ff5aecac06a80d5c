"""Firing schedules: each occurrence becomes a job at its moment, once, whoever does it.

What is due is read by the database's clock, what to make of it is decided here (core/firing.py), and
one statement moves the schedule on and makes the jobs. Any number of workers may try.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.core import cron
from headway.core.clock import Clock, monotonic
from headway.core.config import CleanUp
from headway.core.firing import Plan, jittered, plan, written
from headway.core.ids import new_id
from headway.engine.maintenance.sweeps import Duty
from headway.engine.service import Service, log
from headway.errors import ConfigError, DatabaseError, DatabaseUnavailable
from headway.store import schedules
from headway.store.faults import is_held_up
from headway.store.link import Link
from headway.store.schedules import DueRow, Occurrence, Put

_BATCH = 100
_TRY_AGAIN = timedelta(minutes=1)
"""When to look again at a schedule that cannot be read here: a newer worker may know how."""
_HELD = timedelta(seconds=1)
"""When to look again at a schedule that someone else has at this moment."""
_CLEAN_EVERY = 60.0


class Scheduler(Duty):
    """Fires what is due.

    The worker on duty sleeps until exactly the next moment; the others look now and then, as a net.
    """

    def __init__(self, link: Link, clock: Clock, net: float) -> None:
        super().__init__(link, clock)
        self._net = net
        self.poll = net
        """How long the worker on duty sleeps at most: less where nothing new is heard of."""

    async def turn(self) -> float | None:
        asked = monotonic()
        due = await self._link.run(schedules.due(_BATCH, self._clock.now()))
        waits = [self._net] if due.next_due_in is None else [due.next_due_in]
        refused = None
        for row in due.rows:
            try:
                next_at = await self._fire(row, due.now)
            except (DatabaseError, DatabaseUnavailable) as error:
                if isinstance(error, DatabaseUnavailable) and not is_held_up(error):
                    raise
                # That one's alone: the others are fired.
                log.error("schedule %s could not be fired: %s", row.name, error)
                refused = error
            else:
                if next_at is not None:
                    waits.append((next_at - due.now).total_seconds())
        if refused is not None:
            raise refused
        if len(due.rows) == _BATCH:
            return 0
        if not self._on_duty:
            return self._net
        return max(0, min(self.poll, *waits) - (monotonic() - asked))

    async def _fire(self, row: DueRow, now: datetime) -> datetime | None:
        decided = _decide(row, now)
        if decided is None:
            later = now + _TRY_AGAIN
            await self._move(row, row.done_until, Plan([], later, None))
            return later
        if decided.dropped_since is not None:
            log.warning(
                "schedule %s: what was due from %s on was missed; of it %d fire now, by catch_up=%r",
                row.name, written(decided.dropped_since), len(decided.occurrences), row.catch_up,
            )  # fmt: skip
        made = await self._move(row, max(now, row.done_until), decided)
        if made is None:
            return now + _HELD
        due = decided.occurrences
        for occurrence in due if made == len(due) else ():
            log.info("schedule %s fired for %s", row.name, written(occurrence))
        if made < len(due):
            log.info(
                "schedule %s made %d jobs for %s: the one before has not ended, or has the unique key",
                row.name, made, ", ".join(map(written, due)),
            )  # fmt: skip
        return decided.next_at

    async def _move(self, row: DueRow, until: datetime, decided: Plan) -> int | None:
        return await self._link.run(
            schedules.fire(
                self._link.target,
                row,
                [_occurrence(row, moment) for moment in decided.occurrences],
                until=until,
                next_at=decided.next_at,
                now=self._clock.now(),
            )
        )


def _decide(row: DueRow, now: datetime) -> Plan | None:
    """What to make of a schedule; none if it cannot be read here."""
    try:
        spec = cron.parse(row.spec)
    except ConfigError as error:
        log.error("schedule %s is left alone for now: %s", row.name, error)
        return None
    return plan(
        spec,
        after=row.done_until,
        now=now,
        since=row.since,
        ends=row.ends_at,
        catch_up=row.catch_up,
        most=row.most,
    )


def _occurrence(row: DueRow, moment: datetime) -> Occurrence:
    at = written(jittered(row.name, moment, row.jitter)) if row.jitter else None
    return Occurrence(str(new_id()), written(moment), at)


@dataclass(frozen=True, slots=True)
class Declared:
    """What an app's code says of schedules."""

    schedules: Sequence[Put] = ()
    owner: str = ""
    """The app's name."""
    clean_up: CleanUp = "stale"
    """What becomes of those that were declared and are not any more."""
    tasks: Collection[str] = ()
    """The tasks and flows that the app knows."""

    @property
    def names(self) -> list[str]:
        return [schedule.name for schedule in self.schedules]


class Declarations(Service):
    """Writes down what the code declares, and removes what it declares no more, as the app wants it."""

    def __init__(self, link: Link, clock: Clock, declared: Declared) -> None:
        super().__init__()
        self._link = link
        self._clock = clock
        self._declared = declared
        self._worker_id = 0
        self._registered = False

    @property
    def names(self) -> list[str]:
        return self._declared.names

    async def declare(self) -> None:
        """At the start of a worker: what is declared is what holds."""
        await self._put(missing=False)
        if self._declared.clean_up == "all":
            await self._clean(stale=False)

    def registered(self, worker_id: int) -> None:
        """The worker is known to the fleet by this id, for the first time or anew."""
        if worker_id not in (0, self._worker_id):
            self._worker_id, self._registered = worker_id, True
            self.wake()

    async def turn(self) -> float | None:
        if self._worker_id == 0:
            return None
        if self._registered:
            # Until it was known, or while it was thought lost, another may have removed what only this
            # worker declares.
            await self._put(missing=True)
            self._registered = False
        if self._declared.clean_up != "stale":
            return None
        await self._clean(stale=True)
        return _CLEAN_EVERY

    async def _put(self, *, missing: bool) -> None:
        if not self._declared.schedules:
            return
        taken = await self._link.run(
            schedules.put(
                self._link.target,
                self._declared.schedules,
                owner=self._declared.owner,
                declared=True,
                missing=missing,
                now=self._clock.now(),
            )
        )
        for name in sorted(name for name, others in taken.items() if others and not missing):
            log.warning(
                "schedule %s is another app's, or was put at run time: what the code declares of it "
                "is not used; give one of them another name, or remove it", name,
            )  # fmt: skip

    async def _clean(self, *, stale: bool) -> None:
        declared = self._declared
        removed = await self._link.run(
            schedules.clean(
                declared.owner, declared.tasks, declared.names, stale=stale, now=self._clock.now()
            )
        )
        if removed:
            log.info("removed schedules that no code declares any more: %s", ", ".join(removed))
