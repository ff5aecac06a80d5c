"""Rows of the database as values. The only mapping of columns to fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, cast
from uuid import UUID

from headway.core import codec
from headway.core.failure import Envelope
from headway.core.info import (
    Attempt,
    Control,
    FailedJob,
    GroupMember,
    JobGroup,
    JobState,
    JobStatus,
    JobSummary,
    Successor,
    WorkerInfo,
)
from headway.core.state import State
from headway.store.statement import Row


@dataclass(slots=True)
class Claim:
    """A worker's hold on a job. Only the move `claim` makes one, and it can be settled once.

    The fields are those of claim.sql. Payloads are JSON text, decoded once, when the job runs.
    """

    id: str
    number: int
    task: str
    step: str
    attempt: int
    max_attempts: int
    queue: str
    priority: int
    seq: int
    key: str | None
    input: str
    options: str | None
    headers: str | None
    carried: str | None
    crashes: int = 0
    """How often in a row its process died while it ran. A job with crashes runs in isolation."""
    opens: bool = False
    """Its start makes room, so another job with its key may be admitted."""
    cut: bool = False
    """The claim left jobs behind because it reached its limit of bytes."""

    @property
    def handler(self) -> str:
        """The handler that runs it: the task, or the flow's step."""
        return f"{self.task}/{self.step}" if self.step else self.task


NotSettled = dict[str, Literal["lost", "locked", "asked", "unasked"]]
"""Jobs by id that a verdict did not change. `lost`: the claim is not current. `locked`: another
transaction has locked the row. `asked`: the job was asked to stop, so it must not run again.
`unasked`: the verdict was a cancellation, but the job was not asked to stop."""


@dataclass(frozen=True, slots=True)
class Gatherable:
    """Groups that may have ended, of a page of the open ones."""

    last: str | None
    """The last of the page; None if it is the last page."""
    ids: list[str]


@dataclass(frozen=True, slots=True)
class Rescued:
    """A job that was taken back from a lost worker."""

    id: str
    worker_id: int
    came_to: Literal["r", "f", "c"]
    """The job runs again (r), failed (f) or was cancelled (c)."""
    task: str
    step: str
    worker_name: str
    crashed: bool
    """The worker crashed or went silent, so the job may be the cause: it is a suspect."""


class Lane(NamedTuple):
    """One queue at one priority: the unit of order."""

    queue: str
    priority: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes that have ready jobs, and the newest seq drawn before they were read."""

    newest: int
    found: list[Lane]


@dataclass(frozen=True, slots=True)
class Promotion:
    count: int
    last_run_at: datetime | None
    next_due_in: float | None
    """Seconds until the next scheduled job is due, or None."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Keys with newly blocked jobs, the newest sequence number read, and the number of jobs."""

    keys: list[str]
    newest: int | None
    count: int


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of an admission."""

    count: int
    places: dict[Lane, int]
    """The lowest sequence number of the admitted jobs, by lane."""
    room_in: dict[str, float]
    """For keys with a rate, or with a pause that has an end: seconds until there may be room."""


class KeyLine(NamedTuple):
    """A key that has blocked jobs or unrecorded starts, and whether it needs attention."""

    key: str
    room: bool
    room_in: float | None
    """If the key only waits for a token or the end of a pause: seconds until then."""


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """The state of a job, and its result or error once it has ended."""

    state: State
    result: str | None
    error: Envelope | None

    @classmethod
    def of(cls, row: Row) -> OutcomeRow:
        state, result, error = row
        return cls(State(_char(state)), result, _json(error))


def job_summary(row: Row) -> JobSummary:
    """Read a row of jobs.sql."""
    *facts, error = row
    return JobSummary(**_facts(facts), error=_json(error))


def job_status(row: Row) -> JobStatus:
    """Read a row of job.sql."""
    (*facts, input_, result, error, headers, progress, expires_at, cancelling, keys, carried) = row
    return JobStatus(
        **_facts(facts),
        error=_json(error),
        input=_json(input_),
        result=_json(result),
        headers=_json(headers),
        progress=_json(progress),
        expires_at=expires_at,
        cancelling=cancelling,
        keys=_json(keys),
        carried=_json(carried),
    )


def attempt(row: Row) -> Attempt:
    """Read a row of attempts.sql."""
    *facts, outcome, next_step, error, input_ = row
    return Attempt(*[*facts, _OUTCOMES[_char(outcome)], next_step, _json(error), _json(input_)])


_OUTCOMES: dict[str, Any] = {
    "r": "retried",
    "f": "failed",
    "c": "cancelled",
    "n": "moved",
    "d": "done",
}


def failed_job(row: Row) -> FailedJob:
    """Read a row of matching.sql."""
    id_, *facts = row
    return FailedJob(UUID(id_), *facts)


def successor(row: Row) -> Successor:
    """Read a row of successors.sql."""
    id_, task, queue, state = row
    return Successor(id_, task, queue, label(state))


def group_member(row: Row) -> GroupMember:
    """Read a row of members.sql."""
    place, id_, task, step, state, result, error = row
    return GroupMember(
        place - 1,
        id_,
        task,
        step,
        None if state is None else label(state),
        _json(result),
        _json(error),
    )


def job_group(rows: Sequence[Row]) -> JobGroup | None:
    """Read the rows of group.sql, one for each state."""
    if not rows:
        return None
    all_but, gathered_at, size = rows[0][:3]
    states: dict[JobState, int] = {label(row[3]): row[4] for row in rows if row[3] is not None}
    return JobGroup(size, all_but, states, gathered_at)


def worker_info(row: Row) -> WorkerInfo:
    """Read a row of workers.sql."""
    id_, name, version, slots, queues, tasks, *rest = row
    return WorkerInfo(id_, name, version, slots, _json(queues), _json(tasks), *rest)


def control(row: Row) -> Control:
    """Read a row of controls.sql."""
    facts: list[Any] = [*row]
    facts[11] = None if facts[11] is None else codec.decode(facts[11])
    return Control(*facts)


def label(state: str | bytes) -> JobState:
    """Return the word for a state as people see it."""
    return cast(JobState, State(_char(state)).label)


_FACTS = (
    "id", "task", "queue", "step", "state", "priority", "attempt", "max_attempts", "run_at", "created_at",
    "started_at", "finished_at", "worker",
)  # fmt: skip
"""The columns with which job.sql and jobs.sql begin."""


def _facts(row: Sequence[Any]) -> dict[str, Any]:
    facts = dict(zip(_FACTS, row, strict=True))
    return facts | {"state": label(facts["state"])}


def _char(value: str | bytes) -> str:
    # psycopg returns "char" as bytes or text, depending on the format of the reply.
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class MadeJob:
    """A row of enqueued.sql: a job as it was made."""

    id: str
    task: str
    queue: str
    priority: int
    state: State
    run_at: datetime
    headers: dict[str, str] | None
    input: str

    @classmethod
    def of(cls, row: Row) -> MadeJob:
        id_, task, queue, priority, state, run_at, headers, input_ = row
        return cls(id_, task, queue, priority, State(_char(state)), run_at, _json(headers), input_)


@dataclass(frozen=True, slots=True)
class BrokenAttempt:
    """A row of broken.sql: an attempt that ended with an error."""

    job_id: str
    claim: int
    task: str
    step: str
    attempt: int
    outcome: str
    error: Envelope

    @classmethod
    def of(cls, row: Row) -> BrokenAttempt:
        job_id, claim, task, step, attempt, outcome, error = row
        return cls(job_id, claim, task, step, attempt, _char(outcome), _json(error))

    @property
    def handler(self) -> str:
        return f"{self.task}/{self.step}" if self.step else self.task


def _json(value: str | None) -> Any:
    return None if value is None else codec.readable(value)
