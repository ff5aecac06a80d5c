"""Firing schedules: each occurrence becomes a job at its moment, once.

The database's clock says which schedules are due. core/firing.py decides which occurrences fire. One
statement then moves the schedule on and inserts the jobs, so any number of workers may try.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from headway.core import cron
from headway.core.clock import Clock, monotonic
from headway.core.firing import FiringPlan, jittered, plan, written
from headway.core.ids import new_id
from headway.engine.maintenance.leader import LeaderService
from headway.engine.service import log
from headway.errors import ConfigError, DatabaseError, DatabaseUnavailable
from headway.store.connections.engine_connection import EngineConnection
from headway.store.faults import is_held_up
from headway.store.statements import schedules
from headway.store.statements.schedules import DueRow, Occurrence

_BATCH = 100
_TRY_AGAIN = timedelta(minutes=1)
"""When to try a schedule again that this version cannot read: a newer worker may know how."""
_HELD = timedelta(seconds=1)
"""When to try a schedule again that another session has locked."""


class Scheduler(LeaderService):
    """Fires the schedules that are due.

    The leader sleeps until exactly the next moment. The other workers poll, as a net.
    """

    def __init__(self, connection: EngineConnection, clock: Clock, net: float) -> None:
        """`net` is the poll interval of a worker that is not the leader."""
        super().__init__(connection, clock)
        self._net = net
        self.poll = net
        """The longest rest of the leader. It is shorter while no notifications arrive."""

    async def turn(self) -> float | None:
        asked = monotonic()
        due = await self._connection.run(schedules.due(_BATCH, self._clock.now()))
        waits = [self._net] if due.next_due_in is None else [due.next_due_in]
        refused = None
        for row in due.rows:
            try:
                next_at = await self._fire(row, due.now)
            except (DatabaseError, DatabaseUnavailable) as error:
                if isinstance(error, DatabaseUnavailable) and not is_held_up(error):
                    raise
                # The others are fired all the same.
                log.error("schedule %s could not be fired: %s", row.name, error)
                refused = error
            else:
                if next_at is not None:
                    waits.append((next_at - due.now).total_seconds())
        if refused is not None:
            raise refused
        if len(due.rows) == _BATCH:
            return 0
        if not self._leads:
            return self._net
        return max(0, min(self.poll, *waits) - (monotonic() - asked))

    async def _fire(self, row: DueRow, now: datetime) -> datetime | None:
        decided = _decide(row, now)
        if decided is None:
            later = now + _TRY_AGAIN
            await self._move(row, row.done_until, FiringPlan([], later, None))
            return later
        if decided.dropped_since is not None:
            log.warning(
                "schedule %s missed its occurrences from %s on; %d of them fire now (catch_up=%r)",
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
                "schedule %s made %d jobs for %s: the previous one has not ended, or has the unique key",
                row.name, made, ", ".join(map(written, due)),
            )  # fmt: skip
        return decided.next_at

    async def _move(self, row: DueRow, until: datetime, decided: FiringPlan) -> int | None:
        return await self._connection.run(
            schedules.fire(
                self._connection.target,
                row,
                [_occurrence(row, moment) for moment in decided.occurrences],
                until=until,
                next_at=decided.next_at,
                now=self._clock.now(),
            )
        )


def _decide(row: DueRow, now: datetime) -> FiringPlan | None:
    """Return which occurrences of a schedule fire. Return None if this version cannot read it."""
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
