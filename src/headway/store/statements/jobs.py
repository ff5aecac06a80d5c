"""Statements that move jobs: one function per file of `sql/moves`, and those that belong to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from headway.core import codec
from headway.store import documents
from headway.store.connections.connect import Target
from headway.store.connections.identity import Elsewhere, Identity, answer
from headway.store.documents import NewJob, Settled, Share
from headway.store.rows import (
    Admission,
    Claim,
    Joined,
    KeyLine,
    Lane,
    Lanes,
    NotSettled,
    OutcomeRow,
    Promotion,
    Rescued,
)
from headway.store.statement import Row, Statement, count, exists

Moment = datetime | None


def enqueue(
    target: Target, jobs: Sequence[NewJob], now: Moment, *, notify_after: bool = False
) -> Statement[dict[str, str]]:
    """Insert jobs.

    Return {requested id: id of the job that holds its unique key} for those that were not inserted.
    With `notify_after` the client notifies workers after its commit, where it can know what to say: not
    for a job that may replace another."""
    after = notify_after and not any(job.on_taken == "replace" for job in jobs)
    channel = None if after else target.work_channel
    params = {"jobs": codec.encode_document(jobs), "channel": channel, "now": now}
    hints = documents.hints_of(jobs) if after else ()
    return Statement("moves/enqueue", params, dict, unique_keys(jobs), hints)


def enqueue_in(
    target: Target, jobs: Sequence[NewJob], now: Moment, place: Identity
) -> Statement[dict[str, str] | Elsewhere]:
    """Insert jobs on a connection of the caller's. Insert none if it leads to another database."""
    params = {
        "jobs": codec.encode_document(jobs),
        "channel": target.work_channel,
        "now": now,
        "database": place.database,
        "server": place.server,
    }
    return Statement("writes/enqueue_in", params, lambda rows: answer(place, rows))


def withdraw(ids: Sequence[str]) -> Statement[int]:
    """Undo a repeated enqueue of jobs that had already ended. Return how many there were."""
    return Statement("moves/withdraw", {"ids": codec.encode_document(ids)}, len)


def claim(worker: int, shares: Sequence[Share], now: Moment) -> Statement[list[Claim]]:
    """Claim the given share of each queue, the highest priority first, then the oldest."""
    params = {"shares": codec.encode_document(shares), "worker": worker, "now": now}
    return Statement("moves/claim", params, _claims)


def claim_plain(worker: int, shares: Sequence[Share], now: Moment) -> Statement[list[Claim] | None]:
    """Claim as `claim` does, if no pause and no limit is in force. Return None if one is."""
    params = {"shares": codec.encode_document(shares), "worker": worker, "now": now}
    return Statement("moves/claim_plain", params, _plain_claims)


def finish(
    target: Target, settled: Sequence[Settled], now: Moment, *, careful: bool = False
) -> Statement[NotSettled]:
    """End jobs. Return the jobs that it did not change, each with the reason.

    A job that somebody has locked is among them. Send those again with `careful`: it changes them if
    they are no longer locked."""
    params = {
        "careful": careful,
        "verdicts": documents.finish(settled),
        "channel": target.work_channel,
        "done": target.done_channel,
        "now": now,
    }
    return Statement("moves/finish", params, _not_settled)


def advance(target: Target, settled: Sequence[Settled], now: Moment) -> Statement[NotSettled]:
    """Move flows to their next step. Return the jobs that it did not change, each with the reason."""
    params = {
        "verdicts": documents.advance(settled),
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("moves/advance", params, _not_settled)


def requeue(
    target: Target, worker: int, settled: Sequence[Settled], now: Moment
) -> Statement[NotSettled]:
    """Requeue jobs. Return the jobs that it did not change, each with the reason."""
    params = {
        "verdicts": documents.requeue(settled),
        "worker": worker,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("moves/requeue", params, _not_settled)


def lock_keys(keys: Collection[str]) -> Statement[int]:
    """Lock keys before `admit`, in the same round trip, so that no other session admits under them."""
    return Statement("writes/lock_keys", {"keys": codec.encode_document(list(keys))}, count)


def unadmit(keys: Collection[str], now: Moment) -> Statement[int]:
    """Take the room of ready jobs that cannot run, before `admit` gives it to others of their keys."""
    params = {"keys": codec.encode_document(list(keys)), "now": now}
    return Statement("moves/unadmit", params, count)


def admit(target: Target, keys: Collection[str], now: Moment) -> Statement[Admission]:
    """Make blocked jobs ready that have room under these keys."""
    params = {
        "keys": codec.encode_document(list(dict.fromkeys(keys))),  # twice would be twice the room
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("moves/admit", params, _admission)


def joined(since: int, limit: int) -> Statement[Joined]:
    """Return the keys whose lines were joined after a cursor."""
    return Statement("reads/joined", {"since": since, "limit": limit}, _joined)


def lines(key: str, limit: int, now: Moment) -> Statement[list[KeyLine]]:
    """Return the next keys after `key` that have a line, each with whether it has room."""
    params = {"key": key, "limit": limit, "now": now}
    return Statement("reads/lines", params, lambda rows: [KeyLine(*row) for row in rows])


def promote(target: Target, since: Moment, limit: int, now: Moment) -> Statement[Promotion]:
    """Make scheduled jobs ready that are due. `since` is the promoter's cursor, None for all."""
    params = {
        "since": since or "-infinity",
        "limit": limit,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("moves/promote", params, lambda rows: Promotion(*rows[0][:3]))


def cancel(
    target: Target, ids: Sequence[UUID | str], now: Moment
) -> Statement[dict[str, Literal["cancelled", "asked"]]]:
    """Cancel waiting jobs, and ask running and locked ones to stop. Return what was done, by id.

    Jobs that have ended are left out."""
    params = {
        "ids": codec.encode_document([str(id_) for id_ in ids]),
        "channel": target.work_channel,
        "done": target.done_channel,
        "now": now,
    }
    return Statement("moves/cancel", params, _cancelled)


def expire(target: Target, limit: int, now: Moment) -> Statement[int]:
    """End jobs that waited longer than their time to live. Return how many."""
    params = {
        "limit": limit,
        "channel": target.work_channel,
        "done": target.done_channel,
        "now": now,
    }
    return Statement("moves/expire", params, count)


def asked(limit: int) -> Statement[list[str]]:
    """Return the ids of waiting jobs that somebody asked to stop."""
    return Statement("reads/asked", {"limit": limit}, _first_column)


def keys_of(ids: Collection[str]) -> Statement[list[str]]:
    """Return the concurrency keys of these jobs."""
    return Statement("reads/keys_of", {"ids": codec.encode_document(list(ids))}, _first_column)


def rescue(target: Target, limit: int, now: Moment) -> Statement[list[Rescued]]:
    """Take back the jobs of lost workers."""
    params = {
        "limit": limit,
        "channel": target.work_channel,
        "done": target.done_channel,
        "now": now,
    }
    return Statement("moves/rescue", params, _rescued)


def revive(target: Target, job_id: UUID, from_step: str | None, now: Moment) -> Statement[bool]:
    """Make a failed, cancelled, expired or scheduled job ready.

    Return false if it is in another state, or has never been at that step."""
    params = {
        "id": str(job_id),
        "step": from_step,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("moves/revive", params, exists)


def retry(ids: Sequence[str], from_step: str | None = None) -> Statement[list[str]]:
    """Run failed jobs again. Return the ids of those that run again."""
    params = {"ids": codec.encode_document(ids), "step": from_step}
    return Statement("writes/retry", params, lambda rows: [row[0] for row in rows])


def enqueue_by_name(
    job_id: UUID, task: str, input_: bytes, options: Mapping[str, Any]
) -> Statement[UUID]:
    """Make a job without its code. Return its id, or that of the job with its unique key."""
    params = {"id": str(job_id), "task": task, "input": input_.decode(), **options}
    key = options.get("unique_key")
    waits_for = None if key is None else f"unique key {key!r}"
    return Statement("writes/enqueue_by_name", params, lambda rows: rows[0][0], waits_for)


def edit(job_id: UUID, step: str | None, input_: bytes) -> Statement[bool]:
    """Give a job another input. Return false if it runs, succeeded, or is at another step."""
    params = {"id": str(job_id), "step": step, "input": input_.decode()}
    return Statement("writes/edit", params, exists)


def progress(notes: Sequence[tuple[Claim, dict[str, Any]]]) -> Statement[int]:
    """Store the progress of running jobs. Return how many were stored."""
    document = [
        {"job_id": claim.id, "claim": claim.number, "progress": note} for claim, note in notes
    ]
    return Statement("writes/progress", {"progress": codec.encode_document(document)}, len)


def lanes(queues: Sequence[str]) -> Statement[Lanes]:
    """Return the lanes of these queues that have ready jobs."""
    return Statement("reads/lanes", {"queues": codec.encode_document(queues)}, _lanes)


def all_lanes() -> Statement[Lanes]:
    """Return the lanes of all queues that have ready jobs."""
    return Statement("reads/all_lanes", {}, _lanes)


def held(claims: Sequence[Claim]) -> Statement[dict[str, bool]]:
    """Return the ids of the claims that are current, each with whether it was asked to stop."""
    document = [{"job_id": claim.id, "claim": claim.number} for claim in claims]
    return Statement("reads/held", {"claims": codec.encode_document(document)}, _held)


def orphans(worker: int, known: Iterable[Claim], limit: int) -> Statement[list[Claim]]:
    """Return up to `limit` claims that this worker holds and that are not `known`."""
    document = [{"job_id": claim.id, "claim": claim.number} for claim in known]
    params = {"worker": worker, "known": codec.encode_document(document), "limit": limit}
    return Statement("reads/orphans", params, _claims)


def idle(queues: Sequence[str] | None, tasks: Sequence[str], now: Moment) -> Statement[bool]:
    """Return whether no job of these tasks runs or can run now, in these queues or (None) in any."""
    params = {
        "queues": None if queues is None else codec.encode_document(queues),
        "tasks": codec.encode_document(tasks),
        "now": now,
    }
    return Statement("reads/idle", params, lambda rows: not rows[0][0])


def outcome(job_id: UUID) -> Statement[OutcomeRow | None]:
    """Return whether a job has ended, and how. None if there is no such job."""
    return Statement(
        "reads/outcome", {"id": str(job_id)}, lambda rows: OutcomeRow.of(rows[0]) if rows else None
    )


def await_end(job_id: UUID, now: Moment) -> Statement[bool]:
    """Register for a notification of this job's end. Return false if it does not live."""
    return Statement("writes/await", {"id": str(job_id), "now": now}, exists)


def unique_keys(jobs: Sequence[NewJob]) -> str | None:
    keys = sorted({job.unique_key for job in jobs if job.unique_key is not None})
    if not keys:
        return None
    named = ", ".join(repr(key) for key in keys[:3]) + (", ..." if len(keys) > 3 else "")
    return f"unique key {named}" if len(keys) == 1 else f"one of the unique keys {named}"


def _claims(rows: Sequence[Row]) -> list[Claim]:
    return [Claim(*row) for row in rows]


def _plain_claims(rows: Sequence[Row]) -> list[Claim] | None:
    return None if rows and rows[-1][0] is None else _claims(rows)


def _not_settled(rows: Sequence[Row]) -> NotSettled:
    return {row[0]: row[1] for row in rows if row[0] is not None}


def _cancelled(rows: Sequence[Row]) -> dict[str, Literal["cancelled", "asked"]]:
    return {row[0]: row[1] for row in rows if row[0] is not None}


def _rescued(rows: Sequence[Row]) -> list[Rescued]:
    return [Rescued(*row) for row in rows if row[0] is not None]


def _first_column(rows: Sequence[Row]) -> list[str]:
    return [row[0] for row in rows]


def _held(rows: Sequence[Row]) -> dict[str, bool]:
    return {row[0]: row[1] for row in rows}


def _joined(rows: Sequence[Row]) -> Joined:
    return Joined(
        [row[0] for row in rows],
        max((row[1] for row in rows), default=None),
        sum(row[2] for row in rows),
    )


def _admission(rows: Sequence[Row]) -> Admission:
    return Admission(
        rows[0][1],
        {Lane(row[4], row[5]): row[6] for row in rows if row[4] is not None},
        {row[0]: row[2] for row in rows if row[0] is not None},
    )


def _lanes(rows: Sequence[Row]) -> Lanes:
    return Lanes(rows[0][2], [Lane(row[0], row[1]) for row in rows[1:]])
