"""Claiming and settling for consumers that are no workers, as statements: calls of the functions that
there are for every language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from headway.core import codec
from headway.store.statement import Row, Statement


@dataclass(frozen=True, slots=True)
class PullRow:
    """A job that a consumer has claimed; payloads are JSON text."""

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
    """What was claimed, and whether a worker lives that looks after what is due later."""

    fleet_lives: bool
    claimed: list[PullRow]


def pull(queue: str, count: int, lease: float, tasks: Sequence[str] | None) -> Statement[Pulled]:
    """Claims up to `count` jobs of a queue for as long as the lease."""
    params = {
        "queue": queue,
        "count": count,
        "lease": lease,
        "tasks": None if tasks is None else codec.encode_document(list(tasks)),
    }
    return Statement("writes/pull", params, _pulled)


def extend(job_id: UUID, claim: int, lease: float) -> Statement[bool]:
    """Lengthens the lease; false if the claim is lost, or the job is to stop."""
    params = {"id": str(job_id), "claim": claim, "lease": lease}
    return Statement("writes/extend", params, _held)


def complete(job_id: UUID, claim: int, result: bytes) -> Statement[bool]:
    """The job succeeded; this and the following are false if the claim is lost."""
    params = {"id": str(job_id), "claim": claim, "result": result.decode()}
    return Statement("writes/complete", params, _held)


def fail(
    job_id: UUID, claim: int, message: str, again: bool, delay: float | None
) -> Statement[bool]:
    """The attempt failed."""
    params = {"id": str(job_id), "claim": claim, "message": message, "again": again, "delay": delay}
    return Statement("writes/fail", params, _held)


def release(job_id: UUID, claim: int) -> Statement[bool]:
    """The job goes back as it was."""
    return Statement("writes/release", {"id": str(job_id), "claim": claim}, _held)


def snooze(job_id: UUID, claim: int, delay: float) -> Statement[bool]:
    """The job runs again later, at no cost of an attempt."""
    params = {"id": str(job_id), "claim": claim, "delay": delay}
    return Statement("writes/snooze", params, _held)


def _pulled(rows: Sequence[Row]) -> Pulled:
    return Pulled(rows[0][0], [PullRow(*row[1:]) for row in rows if row[1] is not None])


def _held(rows: Sequence[Row]) -> bool:
    return bool(rows[0][0])
