"""The moves of jobs as statements: one function per file of `sql/moves`, and what belongs to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from headway.core import codec
from headway.core.verdict import Verdict
from headway.store.connect import Target
from headway.store.rows import Claim, Lane, Lanes, OutcomeRow, Promotion
from headway.store.statement import Row, Statement, count, exists

Moment = datetime | None


class NewJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job to be made, as enqueue.sql takes it. `delay` and `ttl` are seconds."""

    id: str
    queue: str
    task: str
    priority: int
    max_attempts: int
    input: codec.Raw
    at: datetime | None = None
    delay: float | None = None
    ttl: float | None = None
    options: dict[str, Any] | None = None
    headers: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One line of a claim: up to `room` jobs of `tasks` from a lane, behind a cursor."""

    lane: Lane
    cursor: int
    room: int
    tasks: tuple[str, ...]


@dataclass(slots=True)
class Settled:
    """A verdict about a claim, on its way to the database."""

    claim: Claim
    verdict: Verdict


_FINAL = {"succeed": "d", "fail": "f", "cancel": "c"}


def enqueue(target: Target, jobs: Sequence[NewJob], now: Moment) -> Statement[int]:
    """Makes jobs; the answer is how many were new."""
    params = {"jobs": codec.encode_document(jobs), "channel": target.work_channel, "now": now}
    return Statement("moves/enqueue", params, count)


def withdraw(ids: Sequence[str]) -> Statement[int]:
    """Takes back those of a repeated enqueue that had already ended."""
    return Statement("moves/withdraw", {"ids": codec.encode_document(ids)}, len)


def claim(worker: int, asks: Iterable[Ask], room: int, now: Moment) -> Statement[list[Claim]]:
    """Claims up to `room` jobs over all lanes asked, in their order."""
    lanes = [
        {"q": a.lane.queue, "p": a.lane.priority, "s": a.cursor, "n": a.room, "t": a.tasks}
        for a in asks
    ]
    params = {"lanes": codec.encode_document(lanes), "worker": worker, "room": room, "now": now}
    return Statement("moves/claim", params, _claims)


def finish(target: Target, settled: Sequence[Settled], now: Moment) -> Statement[list[str]]:
    """Ends jobs; the answer is the ids whose claim was lost."""
    verdicts = [
        {
            "i": s.claim.id,
            "c": s.claim.number,
            "s": _FINAL[s.verdict.kind],
            "o": None if s.verdict.result is None else codec.Raw(s.verdict.result),
            "e": s.verdict.error,
        }
        for s in settled
    ]
    params = {"verdicts": codec.encode_document(verdicts), "done": target.done_channel, "now": now}
    return Statement("moves/finish", params, _lost)


def requeue(
    target: Target, worker: int, settled: Sequence[Settled], now: Moment
) -> Statement[list[str]]:
    """Sends jobs round again; the answer is the ids it did not touch: lost, or asked to stop."""
    verdicts = [
        {
            "i": s.claim.id,
            "c": s.claim.number,
            "d": s.verdict.delay,
            "b": s.verdict.kind != "retry",
            "f": s.verdict.kind == "release",
            "e": s.verdict.error,
        }
        for s in settled
    ]
    params = {
        "verdicts": codec.encode_document(verdicts),
        "worker": worker,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("moves/requeue", params, _untouched)


def promote(target: Target, since: Moment, limit: int, now: Moment) -> Statement[Promotion]:
    """Makes ready what is due; `since` is the promoter's cursor, none for all."""
    params = {
        "since": since or "-infinity",
        "limit": limit,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("moves/promote", params, lambda rows: Promotion(*rows[0][:3]))


def cancel(
    target: Target, job_id: UUID, now: Moment
) -> Statement[Literal["cancelled", "asked"] | None]:
    """Cancels a waiting job, or asks a running one to stop; none if it was neither at that moment."""
    params = {
        "id": str(job_id),
        "channel": target.work_channel,
        "done": target.done_channel,
        "now": now,
    }
    return Statement("moves/cancel", params, lambda rows: rows[0][0] if rows else None)


def expire(target: Target, limit: int, now: Moment) -> Statement[int]:
    """Ends what waited longer than its time to live."""
    return Statement(
        "moves/expire", {"limit": limit, "done": target.done_channel, "now": now}, count
    )


def rescue(target: Target, limit: int, now: Moment) -> Statement[tuple[int, int]]:
    """Takes back the jobs of lost workers: how many run again, how many ended."""
    params = {
        "limit": limit,
        "channel": target.work_channel,
        "done": target.done_channel,
        "now": now,
    }
    return Statement("moves/rescue", params, lambda rows: (rows[0][0], rows[0][1]))


def revive(target: Target, job_id: UUID, now: Moment) -> Statement[bool]:
    """Makes a failed, cancelled, expired or scheduled job ready; false if it was none of these."""
    params = {"id": str(job_id), "channel": target.work_channel, "now": now}
    return Statement("moves/revive", params, exists)


def progress(notes: Sequence[tuple[Claim, dict[str, Any]]]) -> Statement[int]:
    """Keeps how far running jobs say they are."""
    document = [{"i": claim.id, "c": claim.number, "p": note} for claim, note in notes]
    return Statement("writes/progress", {"progress": codec.encode_document(document)}, len)


def lanes(queues: Sequence[str]) -> Statement[Lanes]:
    """Which lanes of these queues have ready jobs."""
    return Statement("reads/lanes", {"queues": codec.encode_document(queues)}, _lanes)


def held(claims: Sequence[Claim]) -> Statement[dict[str, bool]]:
    """Of these claims, the ids that still hold, each with whether it was asked to stop."""
    document = [{"i": claim.id, "c": claim.number} for claim in claims]
    return Statement("reads/held", {"claims": codec.encode_document(document)}, _held)


def orphans(worker: int, known: Iterable[str]) -> Statement[list[Claim]]:
    """Claims that this worker holds and does not know of."""
    params = {"worker": worker, "known": codec.encode_document(list(known))}
    return Statement("reads/orphans", params, _claims)


def idle(queues: Sequence[str], tasks: Sequence[str], now: Moment) -> Statement[bool]:
    """Whether nothing of these tasks can run or runs now."""
    params = {
        "queues": codec.encode_document(queues),
        "tasks": codec.encode_document(tasks),
        "now": now,
    }
    return Statement("reads/idle", params, lambda rows: not rows[0][0])


def outcome(job_id: UUID) -> Statement[OutcomeRow | None]:
    """Whether a job has ended, and with what; none if there is no such job."""
    return Statement(
        "reads/outcome", {"id": str(job_id)}, lambda rows: OutcomeRow.of(rows[0]) if rows else None
    )


def await_end(job_id: UUID, now: Moment) -> Statement[bool]:
    """Has whoever ends this live job tell those who wait for it."""
    return Statement("writes/await", {"id": str(job_id), "now": now}, exists)


def _claims(rows: Sequence[Row]) -> list[Claim]:
    return [Claim(*row) for row in rows]


def _lost(rows: Sequence[Row]) -> list[str]:
    return [row[0] for row in rows if row[1]]


def _untouched(rows: Sequence[Row]) -> list[str]:
    return [row[0] for row in rows if row[0] is not None]


def _held(rows: Sequence[Row]) -> dict[str, bool]:
    return {row[0]: row[1] for row in rows}


def _lanes(rows: Sequence[Row]) -> Lanes:
    return Lanes(rows[0][2], [Lane(row[0], row[1]) for row in rows[1:]])
