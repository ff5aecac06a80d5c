"""Statements that claim and settle for consumers without a worker. They call the functions that exist
for every language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from headway.core import codec
from headway.store.statement import Row, Statement


@dataclass(frozen=True, slots=True)
class PullRow:
    """A job that a consumer has claimed. Payloads are JSON text."""

    id: UUID
    claim: int
    task: str
    step: str
    attempt: int
    max_attempts: int
    priority: int
    input: str
    headers: str | None
    carried: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Pulled:
    """The claimed jobs, and whether a worker is alive, which promotes and rescues jobs."""

    fleet_lives: bool
    claimed: list[PullRow]


def pull(queue: str, count: int, lease: float, tasks: Sequence[str] | None) -> Statement[Pulled]:
    """Claim up to `count` jobs of a queue for the given lease."""
    params = {
        "queue": queue,
        "count": count,
        "lease": lease,
        "tasks": None if tasks is None else codec.encode_document(list(tasks)),
    }
    return Statement("writes/pull", params, _pulled)


def extend(job_id: UUID, claim: int, lease: float) -> Statement[bool]:
    """Extend the lease. Return false if the claim is lost, or the job was asked to stop."""
    params = {"id": str(job_id), "claim": claim, "lease": lease}
    return Statement("writes/extend", params, _held)


def complete(job_id: UUID, claim: int, result: bytes) -> Statement[bool]:
    """End a job as succeeded. Return false if the claim is lost."""
    params = {"id": str(job_id), "claim": claim, "result": result.decode()}
    return Statement("writes/complete", params, _held)


def fail(
    job_id: UUID, claim: int, message: str, again: bool, delay: float | None
) -> Statement[bool]:
    """End an attempt as failed. Return false if the claim is lost."""
    params = {"id": str(job_id), "claim": claim, "message": message, "again": again, "delay": delay}
    return Statement("writes/fail", params, _held)


def release(job_id: UUID, claim: int) -> Statement[bool]:
    """Give a job back as it was. Return false if the claim is lost."""
    return Statement("writes/release", {"id": str(job_id), "claim": claim}, _held)


def snooze(job_id: UUID, claim: int, delay: float) -> Statement[bool]:
    """Run a job again later without counting the attempt. Return false if the claim is lost."""
    params = {"id": str(job_id), "claim": claim, "delay": delay}
    return Statement("writes/snooze", params, _held)


def _pulled(rows: Sequence[Row]) -> Pulled:
    return Pulled(rows[0][0], [PullRow(*row[1:]) for row in rows if row[1] is not None])


def _held(rows: Sequence[Row]) -> bool:
    return bool(rows[0][0])
