"""Operations that take more than one statement, as generators of statements.

A script yields statements and receives their answers. `Client.play` and `Client.play_sync` run the same
script, so its decisions are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from headway.core import codec
from headway.core.failure import WORKER_LOST
from headway.core.info import Attempt, GroupMember, JobStatus
from headway.core.state import State
from headway.errors import DatabaseUnavailable, JobNotFound
from headway.store.connections.connect import Target
from headway.store.rows import OutcomeRow
from headway.store.statement import Statement
from headway.store.statements import groups, inspect, jobs
from headway.store.statements.jobs import Moment

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Noticed:
    """A statement whose script receives a `ScriptReply`, because it must know of repetitions."""

    statement: Statement[Any]


@dataclass(frozen=True, slots=True)
class ScriptReply:
    """An answer, and whether the statement was sent more than once."""

    answer: Any
    repeated: bool
    """An earlier try may have taken effect although its reply was lost."""


def statement_of(step: Statement[Any] | Noticed) -> Statement[Any]:
    """Return the statement of a step."""
    return step.statement if isinstance(step, Noticed) else step


def reply_to(step: Statement[Any] | Noticed, answer: Any, repeated: bool) -> Any:
    """Return what the script receives for a step."""
    return ScriptReply(answer, repeated) if isinstance(step, Noticed) else answer


Script = Generator[Statement[Any] | Noticed, Any, R]

_TRIES = 20
_PAGE = 500
_REVIVABLE = ("scheduled", "failed", "cancelled", "expired")


def cancel(target: Target, job_id: UUID, now: Moment) -> Script[bool]:
    """Cancel a job or ask it to stop. Return false if it had already ended.

    The state before the call tells whether a try whose reply was lost may have cancelled it.
    """
    before: OutcomeRow | None = yield jobs.outcome(job_id)
    if before is None:
        raise JobNotFound(job_id)
    repeated = False
    for _ in range(_TRIES):
        reply: ScriptReply = yield Noticed(jobs.cancel(target, [job_id], now))
        if reply.answer:
            return True
        repeated = repeated or reply.repeated
        after: OutcomeRow | None = yield jobs.outcome(job_id)
        if after is None:
            raise JobNotFound(job_id)
        if after.state.finished:
            return repeated and after.state is State.CANCELLED and not before.state.finished
    raise DatabaseUnavailable(f"job {job_id} changes state too fast to be cancelled; try again")


def members(job_id: UUID) -> Script[list[GroupMember]]:
    """Return the members of the group that a job follows, read in pages."""
    found: list[GroupMember] = []
    while True:
        page: list[GroupMember] = yield groups.members(job_id, len(found), _PAGE)
        found += page
        if len(page) < _PAGE:
            return found


def cancel_members(target: Target, job_id: UUID, now: Moment) -> Script[int]:
    """Cancel the members of the group that a job follows. Return how many it concerned."""
    count, seen = 0, 0
    while True:
        page: list[GroupMember] = yield groups.members(job_id, seen, _PAGE)
        seen += len(page)
        if page:
            done: dict[str, str] = yield jobs.cancel(target, [each.id for each in page], now)
            count += len(done)
        if len(page) < _PAGE:
            return count


def revive(target: Target, job_id: UUID, from_step: str | None, now: Moment) -> Script[bool]:
    """Make a job run again.

    Return false if there is nothing to repeat: the job waits, runs or succeeded, or never reached
    `from_step`. A try whose reply was lost took effect if `run_at` has changed since before the call.
    """
    before: JobStatus | None = yield inspect.job(job_id)
    if before is None:
        raise JobNotFound(job_id)
    repeated = False
    for _ in range(_TRIES):
        reply: ScriptReply = yield Noticed(jobs.revive(target, job_id, from_step, now))
        if reply.answer:
            return True
        repeated = repeated or reply.repeated
        after: JobStatus | None = yield inspect.job(job_id)
        if after is None:
            raise JobNotFound(job_id)
        if from_step is not None or after.state not in _REVIVABLE:
            return repeated and after.run_at != before.run_at
    raise DatabaseUnavailable(f"job {job_id} changes state too fast to be retried; try again")


def edit(job_id: UUID, encode: Callable[[str, str], bytes]) -> Script[bool]:
    """Give a job another input. Return false if it runs or succeeded.

    `encode` makes the input for a task and step, which may change before it is written.
    """
    written: bytes | None = None
    for _ in range(_TRIES):
        row: JobStatus | None = yield inspect.job(job_id)
        if row is None:
            raise JobNotFound(job_id)
        if row.state in ("running", "succeeded"):
            return written is not None and row.input == codec.decode(written)
        encoded = encode(row.task, row.step)
        reply: ScriptReply = yield Noticed(jobs.edit(job_id, row.step, encoded))
        if reply.answer:
            return True
        if reply.repeated:
            written = encoded
    raise DatabaseUnavailable(f"job {job_id} changes state too fast to be edited; try again")


def settle(statement: Statement[bool], repeated: bool = False) -> Script[bool]:
    """Settle the claim of a consumer. Return false if the claim was lost and nothing was changed.

    After a repetition (`repeated`: the caller sent it before), the first try may have settled the
    claim. Only a rescue takes a claim away, and it leaves an attempt row for that claim.
    """
    reply: ScriptReply = yield Noticed(statement)
    if reply.answer or not (repeated or reply.repeated):
        return bool(reply.answer)
    job_id = UUID(statement.params["id"])
    history: list[Attempt] = yield inspect.attempts(job_id)
    spent = [attempt for attempt in history if attempt.claim == statement.params["claim"] >> 32]
    if any(spent_.error and spent_.error.get("type") == WORKER_LOST for spent_ in spent):
        return False
    if statement.name == "writes/fail":
        return bool(spent)
    outcome: OutcomeRow | None = yield jobs.outcome(job_id)
    if statement.name == "writes/complete":
        return outcome is None or outcome.state is State.SUCCEEDED
    return True


def ended(job_id: UUID) -> Script[OutcomeRow | None]:
    """Return how a job ended, or None while it lives."""
    outcome: OutcomeRow | None = yield jobs.outcome(job_id)
    if outcome is None:
        raise JobNotFound(job_id)
    return outcome if outcome.state.finished else None


def await_end(job_id: UUID, now: Moment) -> Script[OutcomeRow | None]:
    """Return how a job ended. If it lives, register for a notification of its end and return None."""
    outcome = yield from ended(job_id)
    if outcome is None and (yield jobs.await_end(job_id, now)):
        outcome = yield from ended(job_id)
    return outcome
