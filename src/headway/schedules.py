"""`hw.schedules`: create, change and look at schedules at run time."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, TypeVar
from uuid import UUID

from headway._api.declared_schedules import Target, as_put, as_put_by_name
from headway._api.session import Session
from headway.core import cron
from headway.core.clock import wall
from headway.core.duration import Duration
from headway.core.firing import CatchUp, Overlap
from headway.core.ids import new_id
from headway.core.info import ScheduleStatus
from headway.core.moments import check_moment
from headway.core.schedule import Schedule, check_schedule_name
from headway.errors import ConfigError, ScheduleNotFound
from headway.flow import Flow
from headway.job import Job
from headway.store.connections import identity
from headway.store.scripts import Script
from headway.store.statement import Statement
from headway.store.statements import jobs, schedules
from headway.store.statements.schedules import Put, ScheduleRow
from headway.task import BoundTask

R = TypeVar("R")


def preview(
    spec: str | Schedule, *, after: datetime | None = None, count: int = 5
) -> list[datetime]:
    """Return the next occurrences after a moment (by default now), in the time zone of the schedule.

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
    return _upcoming(cron.parse(schedule.spec), begin, begin, schedule.ends_at, count)


class Schedules:
    """The schedules of one app's schema. A change applies to the whole fleet at once.

    >>> await hw.schedules.put("nightly", report, "@daily[Europe/Berlin]")      # doctest: +SKIP
    """

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
        max_catch_up: int = 100,
        overlap: Overlap = "allow",
        jitter: Duration | None = None,
        ends_at: datetime | None = None,
        check: bool = True,
        no_keys: bool = False,
        conn: Any = None,
    ) -> None:
        """Create a schedule, or change the one of this name.

        With the same spec it continues where it is, with another spec it starts now. `task` is a task,
        a flow, the name of one, or `task.using(...)`. `conn` makes the change part of that connection's
        transaction. `check=False` is for the name of a task that this app does not define: the input is
        checked when a job runs. Keys that the task's code would compute are then refused, and `no_keys`
        leaves them out. The other options are those of `Schedule`.
        """
        schedule = Schedule(
            spec,
            name=name,
            input=input,
            catch_up=catch_up,
            max_catch_up=max_catch_up,
            overlap=overlap,
            jitter=jitter,
            ends_at=ends_at,
        )
        checked = self._checked(schedule, task, check=check, no_keys=no_keys)
        await self._session.ready_client()
        answer = await self._run_in(conn, self._put(checked))
        _check_put(schedule, answer)

    async def remove(self, name: str, *, conn: Any = None) -> bool:
        """Remove a schedule. Return false if there is none of this name.

        A schedule that code declares comes back with the next start of a worker. `conn` makes the
        change part of that connection's transaction.
        """
        return await self._run_in(conn, schedules.remove(check_schedule_name(name)))

    async def pause(
        self, name: str, *, reason: str | None = None, actor: str | None = None
    ) -> None:
        """Stop a schedule until `resume`, also across deploys. Jobs that it made continue.

        `reason` and `actor`, who paused it, are shown to people.
        """
        check_schedule_name(name)
        now = self._session.clock.now()
        paused = await self._session.run(schedules.pause(name, actor=actor, reason=reason, now=now))
        _found(name, paused or None)

    async def resume(self, name: str) -> bool:
        """Continue a schedule from now on. Return false if it was not paused.

        Occurrences during the pause are not fired.
        """
        check_schedule_name(name)
        return _found(name, await self._session.run(self._resume(name)))

    async def run(self, name: str) -> Job[Any]:
        """Make a job of a schedule now, paused or not. Its next occurrence stays the same."""
        check_schedule_name(name)
        job_id = new_id()
        await self._session.ready_client()
        (made,) = await self._session.run_all(
            self._now(name, job_id), on_repeat=[jobs.withdraw([str(job_id)])]
        )
        found: UUID = _found(name, made)
        return Job(self._session, found, None, created=found == job_id)

    async def list(self) -> builtins.list[ScheduleStatus]:
        """Return every schedule, by name."""
        found = await self._session.run(schedules.schedules(None, self._session.clock.now()))
        return [_status(row) for row in found]

    async def get(self, name: str) -> ScheduleStatus | None:
        """Return the schedule of this name, or None."""
        row = await self._row(name)
        return None if row is None else _status(row)

    async def next(self, name: str, count: int = 10) -> builtins.list[datetime]:
        """Return the next occurrences of a schedule, in its time zone, by the database's clock.

        For a paused schedule: as if it were resumed now.
        """
        row = _found(name, await self._row(name))
        return _coming(row, cron.parse(row.spec), count)

    async def _row(self, name: str) -> ScheduleRow | None:
        check_schedule_name(name)
        found = await self._session.run(schedules.schedules(name, self._session.clock.now()))
        return found[0] if found else None

    async def _run_in(self, conn: Any, statement: Statement[R]) -> R:
        """Return the answer, in the transaction of the caller's connection if one is given."""
        if conn is None:
            return await self._session.run(statement)
        await self._session.run_in(conn, lambda own: [identity.read(own)])
        answers = await self._session.run_in(conn, lambda _: [statement])
        answer: R = answers[0]
        return answer

    # -- sync: generated by scripts/sync from the async methods; do not edit --

    def put_sync(
        self,
        name: str,
        task: Target | str,
        spec: str,
        *,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - it is what a job calls it
        catch_up: CatchUp = "one",
        max_catch_up: int = 100,
        overlap: Overlap = "allow",
        jitter: Duration | None = None,
        ends_at: datetime | None = None,
        check: bool = True,
        no_keys: bool = False,
        conn: Any = None,
    ) -> None:
        """Sync version of `put`.

        Create a schedule, or change the one of this name.
        """
        schedule = Schedule(
            spec,
            name=name,
            input=input,
            catch_up=catch_up,
            max_catch_up=max_catch_up,
            overlap=overlap,
            jitter=jitter,
            ends_at=ends_at,
        )
        checked = self._checked(schedule, task, check=check, no_keys=no_keys)
        self._session.ready_client_sync()
        answer = self._run_in_sync(conn, self._put(checked))
        _check_put(schedule, answer)

    def remove_sync(self, name: str, *, conn: Any = None) -> bool:
        """Sync version of `remove`.

        Remove a schedule. Return false if there is none of this name.
        """
        return self._run_in_sync(conn, schedules.remove(check_schedule_name(name)))

    def pause_sync(self, name: str, *, reason: str | None = None, actor: str | None = None) -> None:
        """Sync version of `pause`.

        Stop a schedule until `resume`, also across deploys. Jobs that it made continue.
        """
        check_schedule_name(name)
        now = self._session.clock.now()
        paused = self._session.run_sync(schedules.pause(name, actor=actor, reason=reason, now=now))
        _found(name, paused or None)

    def resume_sync(self, name: str) -> bool:
        """Sync version of `resume`.

        Continue a schedule from now on. Return false if it was not paused.
        """
        check_schedule_name(name)
        return _found(name, self._session.run_sync(self._resume(name)))

    def run_sync(self, name: str) -> Job[Any]:
        """Sync version of `run`.

        Make a job of a schedule now, paused or not. Its next occurrence stays the same.
        """
        check_schedule_name(name)
        job_id = new_id()
        self._session.ready_client_sync()
        (made,) = self._session.run_all_sync(
            self._now(name, job_id), on_repeat=[jobs.withdraw([str(job_id)])]
        )
        found: UUID = _found(name, made)
        return Job(self._session, found, None, created=found == job_id)

    def list_sync(self) -> builtins.list[ScheduleStatus]:
        """Sync version of `list`.

        Return every schedule, by name.
        """
        found = self._session.run_sync(schedules.schedules(None, self._session.clock.now()))
        return [_status(row) for row in found]

    def get_sync(self, name: str) -> ScheduleStatus | None:
        """Sync version of `get`.

        Return the schedule of this name, or None.
        """
        row = self._row_sync(name)
        return None if row is None else _status(row)

    def next_sync(self, name: str, count: int = 10) -> builtins.list[datetime]:
        """Sync version of `next`.

        Return the next occurrences of a schedule, in its time zone, by the database's clock.
        """
        row = _found(name, self._row_sync(name))
        return _coming(row, cron.parse(row.spec), count)

    def _row_sync(self, name: str) -> ScheduleRow | None:
        check_schedule_name(name)
        found = self._session.run_sync(schedules.schedules(name, self._session.clock.now()))
        return found[0] if found else None

    def _run_in_sync(self, conn: Any, statement: Statement[R]) -> R:
        """Sync version of `_run_in`.

        Return the answer, in the transaction of the caller's connection if one is given.
        """
        if conn is None:
            return self._session.run_sync(statement)
        self._session.run_in_sync(conn, lambda own: [identity.read(own)])
        answers = self._session.run_in_sync(conn, lambda _: [statement])
        answer: R = answers[0]
        return answer

    # -- end of the generated methods --

    def _checked(
        self, schedule: Schedule, task: Target | str, *, check: bool, no_keys: bool
    ) -> Put:
        name, most_bytes = check_schedule_name(schedule.name or ""), self._session.max_payload_bytes
        now = self._session.clock.now() or wall()
        if not _upcoming(cron.parse(schedule.spec), now, now, schedule.ends_at, 1):
            _check_put(schedule, {})
        if not check:
            if not isinstance(task, str):
                raise ConfigError("check=False is for the name of a task; leave it out for a task")
            return as_put_by_name(name, schedule, task, most_bytes, no_keys=no_keys)
        if no_keys:
            raise ConfigError("no_keys needs check=False: the task's code computes its keys")
        target = self._get_task(task) if isinstance(task, str) else task
        if not isinstance(target, BoundTask | Flow):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{task!r} is not a task; give a task, a flow, or the name of one")
        return as_put(name, schedule, target, most_bytes)

    def _put(self, checked: Put) -> Statement[dict[str, bool]]:
        session, owner = self._session, self._owner()
        now = session.clock.now()
        return schedules.put(session.target, [checked], owner=owner, declared=False, now=now)

    def _resume(self, name: str) -> Script[bool | None]:
        session = self._session
        resumed: bool | None = yield schedules.resume(session.target, name, session.clock.now())
        return resumed

    def _now(self, name: str, job_id: UUID) -> builtins.list[Statement[Any]]:
        session = self._session
        return [schedules.run(session.target, name, job_id, session.clock.now())]


def _check_put(schedule: Schedule, answer: Mapping[str, bool]) -> None:
    if not answer:
        raise ConfigError(
            f"schedule {schedule.name!r} would never run: {schedule.spec!r} is in the past"
            + (f" or after {schedule.ends_at}" if schedule.ends_at else "")
            + "; give it a future time"
        )


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
        max_catch_up=row.most,
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


def _coming(row: ScheduleRow, spec: cron.Spec, count: int) -> list[datetime]:
    return _upcoming(spec, max(row.done_until, row.now), row.since, row.ends_at, count)


def _upcoming(
    spec: cron.Spec, after: datetime, since: datetime, ends_at: datetime | None, count: int
) -> list[datetime]:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"count {count!r} must be a whole number, 0 or more")
    coming: Iterator[datetime] = spec.following(after, since)
    within = takewhile(lambda moment: ends_at is None or moment <= ends_at, coming)
    return [moment.astimezone(spec.zone) for moment in islice(within, count)]


def _found(name: str, value: R | None) -> R:
    if value is None:
        raise ScheduleNotFound(name)
    return value
