"""Statements for people: lists, the history of one job, the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headway.core import codec
from headway.core.failure import Failure
from headway.core.info import (
    Attempt,
    FailedJob,
    JobStatus,
    JobSummary,
    QueueInfo,
    QueueMetrics,
    ServerInfo,
    Successor,
    WorkerInfo,
)
from headway.core.state import State
from headway.store import rows as read
from headway.store.statement import Row, Statement
from headway.store.statement import count as number
from headway.store.statements.jobs import Moment


def job(job_id: UUID) -> Statement[JobStatus | None]:
    """Return one job with its payloads, live or archived."""
    return Statement(
        "reads/job", {"id": str(job_id)}, lambda rows: read.job_status(rows[0]) if rows else None
    )


def jobs(
    *,
    states: Sequence[State] | None = None,
    task: str | None = None,
    step: str | None = None,
    queue: str | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> Statement[list[JobSummary]]:
    """Return a page of jobs, newest first, without payloads. `before` is the last id so far."""
    params = {
        "states": None if states is None else codec.encode_document([s.value for s in states]),
        "task": task,
        "step": step,
        "queue": queue,
        "before": None if before is None else str(before),
        "limit": limit,
    }
    return Statement("reads/jobs", params, lambda rows: [read.job_summary(row) for row in rows])


def count(
    *,
    states: Sequence[State] | None = None,
    task: str | None = None,
    step: str | None = None,
    queue: str | None = None,
) -> Statement[int]:
    """Count jobs, live and finished."""
    params = {
        "states": None if states is None else codec.encode_document([s.value for s in states]),
        "task": task,
        "step": step,
        "queue": queue,
    }
    return Statement("reads/count_jobs", params, number)


def tasks() -> Statement[dict[str, str]]:
    """Return the handlers that workers have ever declared, with their queues."""
    return Statement("reads/tasks", {}, lambda rows: {row[0]: row[1] for row in rows})


def attempts(job_id: UUID) -> Statement[list[Attempt]]:
    """Return every failed attempt and every completed step of a job, oldest first."""
    return Statement(
        "reads/attempts", {"id": str(job_id)}, lambda rows: [read.attempt(row) for row in rows]
    )


def explain(job_id: UUID) -> Statement[list[str]]:
    """Return why a job does not run, or how it ended; the most certain reason first."""
    return Statement("reads/explain", {"id": str(job_id)}, lambda rows: rows[0][0].splitlines())


def successors(job_id: UUID) -> Statement[list[Successor]]:
    """Return the jobs that were made because this one failed."""
    return Statement(
        "reads/successors", {"id": str(job_id)}, lambda rows: [read.successor(row) for row in rows]
    )


def errors(task: str | None, since: Moment, limit: int) -> Statement[list[Failure]]:
    """Return the newest failures, oldest first."""
    params = {"task": task, "since": since, "limit": limit}
    return Statement("reads/errors", params, lambda rows: [_failure(row) for row in reversed(rows)])


def failures(since: Moment, after: str | None) -> Statement[tuple[str, list[Failure]]]:
    """Return a snapshot to continue from, and the jobs that failed since a moment or a snapshot."""
    return Statement("reads/failures", {"since": since, "after": after}, _failures)


def matching(
    *,
    task: str | None,
    step: str | None,
    since: Moment,
    pattern: str | None,
    limit: int | None,
) -> Statement[list[FailedJob]]:
    """Return failed jobs, oldest first, by task, step, moment and a pattern of their error."""
    params = {"task": task, "step": step, "since": since, "pattern": pattern, "limit": limit}
    return Statement("reads/matching", params, lambda rows: [read.failed_job(row) for row in rows])


def queues(now: Moment) -> Statement[list[QueueInfo]]:
    """Return every queue with jobs or settings."""
    return Statement("reads/queues", {"now": now}, lambda rows: [QueueInfo(*row) for row in rows])


def metrics(queue: str | None, now: Moment) -> Statement[list[QueueMetrics]]:
    """Return the counts of a queue, or of every queue that has or had jobs."""
    params = {"queue": queue, "now": now}
    return Statement("reads/metrics", params, lambda rows: [QueueMetrics(*row) for row in rows])


def workers(now: Moment) -> Statement[list[WorkerInfo]]:
    """Return the fleet, including workers lost within the last hour."""
    return Statement(
        "reads/workers", {"now": now}, lambda rows: [read.worker_info(row) for row in rows]
    )


def stranded(now: Moment) -> Statement[dict[str, int]]:
    """Return the handlers of ready jobs that no live worker can run, with their number."""
    return Statement("reads/stranded", {"now": now}, lambda rows: {row[0]: row[1] for row in rows})


def server() -> Statement[ServerInfo]:
    """Return whether the server can be used."""
    return Statement("reads/server", {}, lambda rows: ServerInfo(*rows[0]))


def _failures(rows: Sequence[Row]) -> tuple[str, list[Failure]]:
    return rows[0][0], [_failure(row[1:]) for row in rows if row[1] is not None]


def _failure(row: Row) -> Failure:
    job_id, task, step, queue, attempt, failed_at, error, input_, headers = row
    return Failure(
        job_id=job_id,
        task=task,
        step=step,
        queue=queue,
        attempt=attempt,
        failed_at=failed_at,
        error=codec.readable(error),
        input=None if input_ is None else codec.readable(input_),
        headers=None if headers is None else codec.readable(headers),
    )
