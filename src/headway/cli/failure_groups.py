"""Group failed jobs by task, step and error. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from headway.cli.output import first_line
from headway.core.failure import Failure
from headway.core.info import FailedJob

_EXAMPLES = 3


@dataclass(slots=True)
class FailureGroup:
    """Jobs of one task that failed at one step with the same error."""

    task: str
    step: str
    error: str
    oldest: datetime
    newest: datetime
    count: int = 0
    ids: list[str] = field(default_factory=list[str])
    """A few examples."""


def grouped(rows: Iterable[FailedJob]) -> list[FailureGroup]:
    """Return the groups of these rows (oldest first), the largest group first."""
    groups: dict[tuple[str, str, str], FailureGroup] = {}
    for row in rows:
        error = first_line(f"{row.error_type}: {row.error_message}")
        key = (row.task, row.step, error)
        group = groups.setdefault(key, FailureGroup(*key, row.finished_at, row.finished_at))
        group.count += 1
        group.newest = row.finished_at
        if group.count <= _EXAMPLES:
            group.ids.append(str(row.id))
    return sorted(groups.values(), key=lambda group: -group.count)


def as_row(failure: Failure) -> FailedJob:
    """Return the fields of a failure that grouping needs."""
    return FailedJob(
        failure.job_id,
        failure.task,
        failure.step,
        failure.failed_at,
        failure.error.get("type"),
        failure.error.get("message"),
    )
