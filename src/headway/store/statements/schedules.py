"""Schedules as statements: putting them, finding those that are due, firing them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from headway.core import codec
from headway.core.firing import CatchUp, Overlap
from headway.store.connect import Target
from headway.store.jobs import Moment
from headway.store.statement import Row, Statement, exists


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule, as it is kept. `now` is when it was read."""

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
    """A schedule to be looked at, as far as it takes to decide what to make of it."""

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
    """What is to be looked at, when that was asked, and the seconds until the next one."""

    now: datetime
    next_due_in: float | None
    rows: list[DueRow]


@dataclass(frozen=True, slots=True)
class Put:
    """A schedule to be put, as it travels. `job` is the document of its jobs; `call` is what the
    database is to make one of, where the code is not at hand. `last`: nothing is due behind it."""

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
    """An occurrence to be made a job of. `at`: not before then."""

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
    """Puts schedules; the answer says of each that was not refused whether its name is someone else's."""
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
    """What is to be looked at now."""
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
    """Makes jobs and moves the schedule on, if it is still as it was read and nobody else is at it: how
    many were made; none if it was not."""
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
    """All of them by name, or the one of a name."""
    return Statement("reads/schedules", {"name": name, "now": now}, _rows)


def pause(name: str, *, by: str | None, reason: str | None, now: Moment) -> Statement[bool]:
    """Stops one; false if there is none of this name."""
    params = {"name": name, "by": by, "reason": reason, "now": now}
    return Statement("writes/pause_schedule", params, exists)


def resume(target: Target, name: str, now: Moment) -> Statement[bool | None]:
    """Lets one go on; false if it was not paused, none if there is none of this name."""
    params = {"name": name, "channel": target.work_channel, "now": now}
    return Statement("writes/resume_schedule", params, lambda rows: rows[0][0] if rows else None)


def remove(name: str) -> Statement[bool]:
    """Removes one; false if there was none."""
    return Statement("writes/remove_schedule", {"name": name}, exists)


def run(target: Target, name: str, job_id: UUID, now: Moment) -> Statement[UUID | None]:
    """Makes a job of one now: that job, or who has its unique key; none if there is no such schedule."""
    params = {"name": name, "id": str(job_id), "channel": target.work_channel, "now": now}
    return Statement("writes/run_schedule", params, lambda rows: rows[0][0] if rows else None)


def clean(
    owner: str, tasks: Collection[str], names: Collection[str], *, stale: bool, now: Moment
) -> Statement[list[str]]:
    """Removes what code declared and does not declare any more; the names."""
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
