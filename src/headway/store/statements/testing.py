"""Statements of the test kit: what was enqueued, what broke, and when something happens next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.store.rows import BrokenAttempt, MadeJob
from headway.store.statement import Row, Statement
from headway.store.statements.jobs import Moment


def enqueued(task: str | None) -> Statement[list[MadeJob]]:
    """Return all jobs of a task, or of all tasks, as they were made, oldest first."""
    return Statement("reads/enqueued", {"task": task}, lambda rows: [MadeJob.of(r) for r in rows])


def broken() -> Statement[list[BrokenAttempt]]:
    """Return all attempts that ended with an error, oldest first."""
    return Statement("reads/broken", {}, lambda rows: [BrokenAttempt.of(row) for row in rows])


def next_moment(now: Moment, *, schedules: bool) -> Statement[datetime | None]:
    """Return the next moment from which a waiting job may run, or a schedule fires."""
    return Statement("reads/next_moment", {"now": now, "schedules": schedules}, _moment)


def _moment(rows: Sequence[Row]) -> datetime | None:
    found: datetime | None = rows[0][0]
    return found
