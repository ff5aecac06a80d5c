"""Statements about schedules: put them, find those that are due, fire them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from headway.core import codec
from headway.core.firing import CatchUp, Overlap
from headway.store.connections.connect import Target
from headway.store.statement import Row, Statement, exists
from headway.store.statements.jobs import Moment


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as stored. `now` is when it was read."""

    name: str
    task: str
    spec: str
    input: Any
    owner: str
    declared: bool
    catch_up: CatchUp
    most: int
    overlap: Overlap
    jitter: float
    since: datetime
    done_until: datetime
    last_at: datetime | None
    last_job: UUID | None
    ends_at: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    created_at: datetime
    changed_at: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class DueRow:
    """A schedule that is due, with the fields that decide which jobs to make."""

    name: str
    spec: str
    catch_up: CatchUp
    most: int
    jitter: float
    since: datetime
    done_until: datetime
    ends_at: datetime | None
    version: int


@dataclass(frozen=True, slots=True)
class Due:
    """The schedules that are due, the moment of the question, and the seconds until the next one."""

    now: datetime
    next_due_in: float | None
    rows: list[DueRow]


@dataclass(frozen=True, slots=True)
class Put:
    """A schedule to put. `job` is the document of its jobs. Without the task's code there is `call`, from
    which the database makes that document. `last`: there is no occurrence after it."""

    name: str
    task: str
    spec: str
    job: Any
    call: Any
    catch_up: CatchUp
    most: int
    overlap: Overlap
    jitter: float
    ends_at: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence whose job is to be made. The job does not run before `at`."""

    id: str
    occurrence: str
    at: str | None


def put(
    target: Target,
    schedules: Sequence[Put],
    *,
    owner: str,
    declared: bool,
    missing: bool = False,
    now: Moment,
) -> Statement[dict[str, bool]]:
    """Put schedules. Return, for each that was accepted, whether another owner has its name."""
    params = {
        "schedules": codec.encode_document(schedules),
        "owner": owner,
        "declared": declared,
        "missing": missing,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement(
        "writes/put_schedules", params, lambda rows: {row[0]: bool(row[1]) for row in rows}
    )


def due(limit: int, now: Moment) -> Statement[Due]:
    """Return the schedules that are due."""
    return Statement("reads/due_schedules", {"limit": limit, "now": now}, _due)


def fire(
    target: Target,
    row: DueRow,
    occurrences: Sequence[Occurrence],
    *,
    until: datetime,
    next_at: datetime | None,
    now: Moment,
) -> Statement[int | None]:
    """Make the jobs of a schedule and move it on. Return how many were made.

    Return None if the schedule has changed since it was read, or is locked."""
    params = {
        "name": row.name,
        "was": row.done_until,
        "version": row.version,
        "occurrences": codec.encode_document(occurrences),
        "until": until,
        "next_at": next_at,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("writes/fire", params, lambda rows: rows[0][1] if rows[0][0] else None)


def schedules(name: str | None, now: Moment) -> Statement[list[ScheduleRow]]:
    """Return all schedules by name, or the one of a name."""
    return Statement("reads/schedules", {"name": name, "now": now}, _rows)


def pause(name: str, *, actor: str | None, reason: str | None, now: Moment) -> Statement[bool]:
    """Pause a schedule. Return false if there is no schedule of this name."""
    params = {"name": name, "actor": actor, "reason": reason, "now": now}
    return Statement("writes/pause_schedule", params, exists)


def resume(target: Target, name: str, now: Moment) -> Statement[bool | None]:
    """Resume a schedule. Return false if it was not paused, None if there is none of this name."""
    params = {"name": name, "channel": target.work_channel, "now": now}
    return Statement("writes/resume_schedule", params, lambda rows: rows[0][0] if rows else None)


def remove(name: str) -> Statement[bool]:
    """Remove a schedule. Return false if there is no schedule of this name."""
    return Statement("writes/remove_schedule", {"name": name}, exists)


def run(target: Target, name: str, job_id: UUID, now: Moment) -> Statement[UUID | None]:
    """Make a job of a schedule now.

    Return its id, or that of the job with its unique key. Return None if there is no such schedule."""
    params = {"name": name, "id": str(job_id), "channel": target.work_channel, "now": now}
    return Statement("writes/run_schedule", params, lambda rows: rows[0][0] if rows else None)


def clean(
    owner: str, tasks: Collection[str], names: Collection[str], *, stale: bool, now: Moment
) -> Statement[list[str]]:
    """Remove schedules that code no longer declares. Return their names."""
    params = {
        "owner": owner,
        "tasks": codec.encode_document(sorted(tasks)),
        "names": codec.encode_document(sorted(names)),
        "stale": stale,
        "now": now,
    }
    return Statement("writes/clean_schedules", params, lambda rows: [row[0] for row in rows])


def _due(rows: Sequence[Row]) -> Due:
    now, next_due_in = rows[0][:2]
    return Due(
        now.astimezone(UTC), next_due_in, [DueRow(*row[2:]) for row in rows if row[2] is not None]
    )


def _rows(rows: Sequence[Row]) -> list[ScheduleRow]:
    return [ScheduleRow(*[*row[:3], codec.decode(row[3] or "null"), *row[4:]]) for row in rows]
