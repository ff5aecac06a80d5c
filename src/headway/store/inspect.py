"""What people look at, as statements: lists, one job's story, the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headway.core import codec
from headway.core.failure import Failure
from headway.core.state import State
from headway.store.jobs import Moment
from headway.store.rows import (
    AttemptRow,
    FailedRow,
    JobRow,
    QueueMetrics,
    QueueRow,
    ServerRow,
    SuccessorRow,
    WorkerRow,
)
from headway.store.statement import Row, Statement


def job(job_id: UUID) -> Statement[JobRow | None]:
    """One job with its payloads, wherever it is."""
    return Statement(
        "reads/job", {"id": str(job_id)}, lambda rows: JobRow.whole(rows[0]) if rows else None
    )


def jobs(
    *,
    states: Sequence[State] | None = None,
    task: str | None = None,
    step: str | None = None,
    queue: str | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> Statement[list[JobRow]]:
    """A page of jobs, newest first, without payloads; `before` is the last id of the page before."""
    params = {
        "states": None if states is None else codec.encode_document([s.value for s in states]),
        "task": task,
        "step": step,
        "queue": queue,
        "before": None if before is None else str(before),
        "limit": limit,
    }
    return Statement("reads/jobs", params, lambda rows: [JobRow.narrow(row) for row in rows])


def tasks() -> Statement[dict[str, str]]:
    """The handlers that workers have declared, now or ever, and their queues."""
    return Statement("reads/tasks", {}, lambda rows: {row[0]: row[1] for row in rows})


def attempts(job_id: UUID) -> Statement[list[AttemptRow]]:
    """Every attempt of a job that failed and every step that was done, oldest first."""
    return Statement(
        "reads/attempts", {"id": str(job_id)}, lambda rows: [AttemptRow.of(row) for row in rows]
    )


def explain(job_id: UUID) -> Statement[list[str]]:
    """Why a job does not run, or what became of it; the most certain reason first."""
    return Statement("reads/explain", {"id": str(job_id)}, lambda rows: rows[0][0].splitlines())


def successors(job_id: UUID) -> Statement[list[SuccessorRow]]:
    """The jobs that were made because this one failed."""
    return Statement(
        "reads/successors", {"id": str(job_id)}, lambda rows: [SuccessorRow.of(row) for row in rows]
    )


def errors(task: str | None, since: Moment, limit: int) -> Statement[list[Failure]]:
    """The newest failures, oldest first."""
    params = {"task": task, "since": since, "limit": limit}
    return Statement("reads/errors", params, lambda rows: [_failure(row) for row in reversed(rows)])


def failures(since: Moment, after: str | None) -> Statement[tuple[str, list[Failure]]]:
    """The snapshot to go on from, and the jobs that failed since a moment or another snapshot."""
    return Statement("reads/failures", {"since": since, "after": after}, _failures)


def matching(
    *,
    task: str | None,
    step: str | None,
    since: Moment,
    pattern: str | None,
    limit: int | None,
) -> Statement[list[FailedRow]]:
    """Failed jobs, oldest first, by task, step, moment and a pattern of their error."""
    params = {"task": task, "step": step, "since": since, "pattern": pattern, "limit": limit}
    return Statement("reads/matching", params, lambda rows: [FailedRow(*row) for row in rows])


def queues(now: Moment) -> Statement[list[QueueRow]]:
    """Every queue with jobs or settings."""
    return Statement("reads/queues", {"now": now}, lambda rows: [QueueRow(*row) for row in rows])


def metrics(queue: str | None, now: Moment) -> Statement[list[QueueMetrics]]:
    """What a queue holds and what came of its jobs; none: of every queue that has or had some."""
    params = {"queue": queue, "now": now}
    return Statement("reads/metrics", params, lambda rows: [QueueMetrics(*row) for row in rows])


def workers(now: Moment) -> Statement[list[WorkerRow]]:
    """The fleet, those lost within the last hour included."""
    return Statement(
        "reads/workers", {"now": now}, lambda rows: [WorkerRow.of(row) for row in rows]
    )


def stranded(now: Moment) -> Statement[dict[str, int]]:
    """Tasks with ready jobs that no live worker knows, and how many each."""
    return Statement("reads/stranded", {"now": now}, lambda rows: {row[0]: row[1] for row in rows})


def server() -> Statement[ServerRow]:
    """Whether the server can be used."""
    return Statement("reads/server", {}, lambda rows: ServerRow(*rows[0]))


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
