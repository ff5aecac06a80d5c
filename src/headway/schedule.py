"""`hw.schedules`: what is made again and again; put, looked at and changed while everything runs."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, TypeVar
from uuid import UUID

from headway.core import cron
from headway.core.clock import wall
from headway.core.duration import Duration
from headway.core.firing import CatchUp, Overlap
from headway.core.ids import new_id
from headway.core.moments import check_moment
from headway.core.schedule import Schedule, check_schedule_name
from headway.declared import Target, as_put
from headway.errors import ConfigError, ScheduleNotFound
from headway.flow import Flow
from headway.handle import Job
from headway.session import Session
from headway.store import identity, jobs, schedules
from headway.store.schedules import ScheduleRow
from headway.store.statement import Statement
from headway.task import Bound

R = TypeVar("R")


def preview(
    spec: str | Schedule, *, after: datetime | None = None, count: int = 5
) -> list[datetime]:
    """The next occurrences behind a moment (now, if none is given), in the zone of the schedule.

    >>> from datetime import UTC
    >>> friday = datetime(2026, 3, 27, 12, tzinfo=UTC)
    >>> for moment in preview("30 2 * * *[Europe/Berlin]", after=friday, count=3):
    ...     print(moment)
    2026-03-28 02:30:00+01:00
    2026-03-29 03:00:00+02:00
    2026-03-30 02:30:00+02:00
    """
    schedule = spec if isinstance(spec, Schedule) else Schedule(spec)
    if after is not None:
        check_moment(after, "after")
    begin = after or wall()
    return _upcoming(cron.parse(schedule.spec), begin, begin, schedule.ends, count)


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule as it stands. Moments are in its zone."""

    name: str
    task: str
    spec: str
    input: Any
    next_at: datetime | None
    """The next occurrence, were it not paused; none if there is none."""
    last_at: datetime | None
    """The newest occurrence that was fired."""
    last_job: UUID | None
    catch_up: CatchUp
    most: int
    overlap: Overlap
    jitter: float
    ends_at: datetime | None
    paused: bool
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    owner: str
    declared: bool
    """Whether code declares it, rather than someone who put it at run time."""
    created_at: datetime
    changed_at: datetime


class Schedules:
    """The schedules of one app's schema; changes hold for the whole fleet at once."""

    def __init__(
        self, session: Session, get_task: Callable[[str], Target], owner: Callable[[], str]
    ) -> None:
        self._session = session
        self._get_task = get_task
        self._owner = owner

    async def put(
        self,
        name: str,
        task: Target | str,
        spec: str,
        *,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - it is what a job calls it
        catch_up: CatchUp = "one",
        most: int = 100,
        overlap: Overlap = "allow",
        jitter: Duration | None = None,
        ends: datetime | None = None,
        conn: Any = None,
    ) -> None:
        """Makes a schedule, or changes the one of this name. With the same spec it goes on where it is,
        with another it begins now. With `conn` it is part of that connection's transaction.

        `task` is a task, a flow, the name of one, or `task.using(...)`; the rest is as of `Schedule`.
        """
        schedule = Schedule(spec, name, input, catch_up, most, overlap, jitter, ends)
        answer = await self._run_in(conn, self._put(schedule, task))
        self._check_put(schedule, answer)

    def put_sync(
        self,
        name: str,
        task: Target | str,
        spec: str,
        *,
        input: Mapping[str, Any] | None = None,  # noqa: A002
        catch_up: CatchUp = "one",
        most: int = 100,
        overlap: Overlap = "allow",
        jitter: Duration | None = None,
        ends: datetime | None = None,
        conn: Any = None,
    ) -> None:
        """As `put`."""
        schedule = Schedule(spec, name, input, catch_up, most, overlap, jitter, ends)
        answer = self._run_in_sync(conn, self._put(schedule, task))
        self._check_put(schedule, answer)

    async def remove(self, name: str, *, conn: Any = None) -> bool:
        """Removes a schedule; false if there was none. One that code declares is there again when the
        next worker starts."""
        return await self._run_in(conn, self._remove(name))

    def remove_sync(self, name: str, *, conn: Any = None) -> bool:
        """As `remove`."""
        return self._run_in_sync(conn, self._remove(name))

    async def pause(self, name: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Stops a schedule, also over deploys, until it is resumed; what it made goes on."""
        paused = await self._run(self._pause(name, reason, by))
        _found(name, paused or None)

    def pause_sync(self, name: str, *, reason: str | None = None, by: str | None = None) -> None:
        """As `pause`."""
        paused = self._run_sync(self._pause(name, reason, by))
        _found(name, paused or None)

    async def resume(self, name: str) -> bool:
        """Lets a schedule go on from now; what fell into the pause is not made up for. False if it was
        not paused."""
        client = await self._session.ready_client()
        return _found(name, await client.run(self._resume(name)))

    def resume_sync(self, name: str) -> bool:
        """As `resume`."""
        return _found(name, self._run_sync(self._resume(name)))

    async def run(self, name: str) -> Job[Any]:
        """Makes a job of a schedule now, paused or not; when it is due next stays as it is."""
        job_id = new_id()
        client = await self._session.ready_client()
        (made,) = await client.run_all(
            [self._now(name, job_id)], on_repeat=[jobs.withdraw([str(job_id)])]
        )
        return self._job(name, job_id, made)

    def run_sync(self, name: str) -> Job[Any]:
        """As `run`."""
        job_id = new_id()
        (made,) = self._session.client.run_all_sync(
            [self._now(name, job_id)], on_repeat=[jobs.withdraw([str(job_id)])]
        )
        return self._job(name, job_id, made)

    async def list(self) -> builtins.list[ScheduleStatus]:
        """Every schedule, by name."""
        return [_status(row) for row in await self._run(self._all())]

    def list_sync(self) -> builtins.list[ScheduleStatus]:
        """As `list`."""
        return [_status(row) for row in self._run_sync(self._all())]

    async def get(self, name: str) -> ScheduleStatus | None:
        """The schedule of this name; none if there is none."""
        return next(iter([_status(row) for row in await self._run(self._one(name))]), None)

    def get_sync(self, name: str) -> ScheduleStatus | None:
        """As `get`."""
        return next(iter([_status(row) for row in self._run_sync(self._one(name))]), None)

    async def next(self, name: str, count: int = 10) -> builtins.list[datetime]:
        """When a schedule is due next, in its zone; by the database's clock. One that is paused: were it
        resumed now."""
        return _next(name, await self._run(self._one(name)), count)

    def next_sync(self, name: str, count: int = 10) -> builtins.list[datetime]:
        """As `next`."""
        return _next(name, self._run_sync(self._one(name)), count)

    # -- statements -------------------------------------------------------------------------------

    async def _run(self, statement: Statement[R]) -> R:
        return await (await self._session.ready_client()).run(statement)

    def _run_sync(self, statement: Statement[R]) -> R:
        return self._session.client.run_sync(statement)

    async def _run_in(self, conn: Any, statement: Statement[R]) -> R:
        """Return the answer, on a connection of the caller's if one is given."""
        if conn is None:
            return await self._run(statement)
        client = await self._session.ready_client()
        await client.run_in(conn, lambda own: [identity.read(own)])
        answer: R = (await client.run_in(conn, lambda _: [statement]))[0]
        return answer

    def _run_in_sync(self, conn: Any, statement: Statement[R]) -> R:
        if conn is None:
            return self._run_sync(statement)
        client = self._session.client
        client.run_in_sync(conn, lambda own: [identity.read(own)])
        answer: R = client.run_in_sync(conn, lambda _: [statement])[0]
        return answer

    def _put(self, schedule: Schedule, task: Target | str) -> Statement[dict[str, bool]]:
        session = self._session
        name = check_schedule_name(schedule.name or "")
        target = self._get_task(task) if isinstance(task, str) else task
        if not isinstance(target, Bound | Flow):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{task!r} is no task; give a task, a flow, or the name of one")
        now = session.clock.now() or wall()
        if not _upcoming(cron.parse(schedule.spec), now, now, schedule.ends, 1):
            self._check_put(schedule, {})
        made = as_put(name, schedule, target, session.max_payload_bytes)
        return schedules.put(
            session.target, [made], owner=self._owner(), declared=False, now=session.clock.now()
        )

    def _check_put(self, schedule: Schedule, answer: Mapping[str, bool]) -> None:
        if not answer:
            raise ConfigError(
                f"schedule {schedule.name!r} would never fire: {schedule.spec!r} has passed"
                + (f", or ends at {schedule.ends}" if schedule.ends else "")
                + "; give it a time to come"
            )

    def _pause(self, name: str, reason: str | None, by: str | None) -> Statement[bool]:
        return schedules.pause(
            check_schedule_name(name), by=by, reason=reason, now=self._session.clock.now()
        )

    def _resume(self, name: str) -> Statement[bool | None]:
        name = check_schedule_name(name)
        return schedules.resume(self._session.target, name, self._session.clock.now())

    def _remove(self, name: str) -> Statement[bool]:
        return schedules.remove(check_schedule_name(name))

    def _now(self, name: str, job_id: UUID) -> Statement[UUID | None]:
        name = check_schedule_name(name)
        return schedules.run(self._session.target, name, job_id, self._session.clock.now())

    def _job(self, name: str, asked: UUID, made: UUID | None) -> Job[Any]:
        return Job(self._session, _found(name, made), None, made=made == asked)

    def _all(self) -> Statement[builtins.list[ScheduleRow]]:
        return schedules.schedules(None, self._session.clock.now())

    def _one(self, name: str) -> Statement[builtins.list[ScheduleRow]]:
        return schedules.schedules(check_schedule_name(name), self._session.clock.now())


def _status(row: ScheduleRow) -> ScheduleStatus:
    try:
        spec = cron.parse(row.spec)
    except ConfigError:  # put by a newer version, or where there are other zones
        coming, zone = list[datetime](), row.now.tzinfo
    else:
        coming, zone = _coming(row, spec, 1), spec.zone
    return ScheduleStatus(
        name=row.name,
        task=row.task,
        spec=row.spec,
        input=row.input,
        next_at=coming[0] if coming else None,
        last_at=row.last_at and row.last_at.astimezone(zone),
        last_job=row.last_job,
        catch_up=row.catch_up,
        most=row.most,
        overlap=row.overlap,
        jitter=row.jitter,
        ends_at=row.ends_at and row.ends_at.astimezone(zone),
        paused=row.paused_at is not None,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
        pause_reason=row.pause_reason,
        owner=row.owner,
        declared=row.declared,
        created_at=row.created_at,
        changed_at=row.changed_at,
    )


def _next(name: str, rows: list[ScheduleRow], count: int) -> list[datetime]:
    row = _found(name, rows[0] if rows else None)
    return _coming(row, cron.parse(row.spec), count)


def _coming(row: ScheduleRow, spec: cron.Spec, count: int) -> list[datetime]:
    return _upcoming(spec, max(row.done_until, row.now), row.since, row.ends_at, count)


def _upcoming(
    spec: cron.Spec, after: datetime, since: datetime, ends: datetime | None, count: int
) -> list[datetime]:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"count {count!r} must be a whole number, 0 or more")
    coming: Iterator[datetime] = spec.following(after, since)
    within = takewhile(lambda moment: ends is None or moment <= ends, coming)
    return [moment.astimezone(spec.zone) for moment in islice(within, count)]


def _found(name: str, value: R | None) -> R:
    if value is None:
        raise ScheduleNotFound(name)
    return value
