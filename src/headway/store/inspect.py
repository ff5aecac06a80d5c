"""What people look at, as statements: lists, one job's story, the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headway.core import codec
from headway.core.state import State
from headway.store.jobs import Moment
from headway.store.rows import AttemptRow, JobRow, QueueRow, ServerRow, WorkerRow
from headway.store.statement import Statement


def job(job_id: UUID) -> Statement[JobRow | None]:
    """One job with its payloads, wherever it is."""
    return Statement(
        "reads/job", {"id": str(job_id)}, lambda rows: JobRow.whole(rows[0]) if rows else None
    )


def jobs(
    *,
    states: Sequence[State] | None = None,
    task: str | None = None,
    queue: str | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> Statement[list[JobRow]]:
    """A page of jobs, newest first, without payloads; `before` is the last id of the page before."""
    params = {
        "states": None if states is None else codec.encode_document([s.value for s in states]),
        "task": task,
        "queue": queue,
        "before": None if before is None else str(before),
        "limit": limit,
    }
    return Statement("reads/jobs", params, lambda rows: [JobRow.narrow(row) for row in rows])


def attempts(job_id: UUID) -> Statement[list[AttemptRow]]:
    """Every attempt of a job that failed, oldest first."""
    return Statement(
        "reads/attempts", {"id": str(job_id)}, lambda rows: [AttemptRow.of(row) for row in rows]
    )


def queues(now: Moment) -> Statement[list[QueueRow]]:
    """Every queue with jobs or settings."""
    return Statement("reads/queues", {"now": now}, lambda rows: [QueueRow(*row) for row in rows])


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
