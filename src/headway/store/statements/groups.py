"""Statements about groups: jobs, and a follow-up that waits for their end."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headway.core import codec
from headway.core.info import GroupMember, JobGroup
from headway.store import rows as read
from headway.store.connections.connect import Target
from headway.store.connections.identity import Elsewhere, Identity, answer
from headway.store.documents import NewJob
from headway.store.rows import Gatherable
from headway.store.statement import Statement, count
from headway.store.statements.jobs import Moment, unique_keys


def enqueue(
    target: Target, jobs: Sequence[NewJob], follow_up: NewJob, all_but: int, now: Moment
) -> Statement[dict[str, str]]:
    """Make the jobs of a group and its follow-up. Return the same as `jobs.enqueue`."""
    params = _params(target, jobs, follow_up, all_but, now)
    return Statement("writes/enqueue_group", params, dict, unique_keys(jobs))


def enqueue_in(
    target: Target,
    jobs: Sequence[NewJob],
    follow_up: NewJob,
    all_but: int,
    now: Moment,
    place: Identity,
) -> Statement[dict[str, str] | Elsewhere]:
    """Make a group on a connection of the caller's. Make none if it leads to another database."""
    params = _params(target, jobs, follow_up, all_but, now)
    params |= {"database": place.database, "server": place.server}
    return Statement("writes/enqueue_group_in", params, lambda rows: answer(place, rows))


def gather(target: Target, ids: Sequence[str], now: Moment) -> Statement[int]:
    """Make the follow-ups among these ids ready whose group has ended. Return how many."""
    params = {"ids": codec.encode_document(ids), "channel": target.work_channel, "now": now}
    return Statement("moves/gather", params, count)


def gatherable(after: str, limit: int) -> Statement[Gatherable]:
    """Return the follow-ups after a cursor whose witnesses have ended."""
    params = {"after": after, "limit": limit}
    return Statement(
        "reads/gatherable",
        params,
        lambda rows: Gatherable(rows[0][0], [row[0] for row in rows[1:]]),
    )


def members(job_id: UUID, after: int, limit: int) -> Statement[list[GroupMember]]:
    """Return members of the group of a follow-up, after the first `after` of them."""
    params = {"id": str(job_id), "after": after, "limit": limit}
    return Statement("reads/members", params, lambda rows: [read.group_member(row) for row in rows])


def group(job_id: UUID) -> Statement[JobGroup | None]:
    """Return the group that a job waits or waited for, None if it is not a follow-up."""
    return Statement("reads/group", {"id": str(job_id)}, read.job_group)


def _params(
    target: Target, jobs: Sequence[NewJob], follow_up: NewJob, all_but: int, now: Moment
) -> dict[str, object]:
    return {
        "jobs": codec.encode_document(jobs),
        "follow_up": codec.encode_document(follow_up),
        "all_but": all_but,
        "channel": target.work_channel,
        "now": now,
    }
