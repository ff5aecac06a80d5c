"""What comes back from the database, as values. The only mapping of columns to fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from headway.core import codec
from headway.core.failure import Envelope
from headway.core.state import State
from headway.store.statement import Row


@dataclass(slots=True)
class Claim:
    """A worker's hold on a job: only `claim` makes one, and only one can be settled.

    Fields are as claim.sql returns them; the payloads are JSON text, decoded once, by whoever runs
    the job.
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
    """How often in a row its process died under it; a suspect runs in isolation."""
    opens: bool = False
    """Now that it has started, another of its key may be let in."""
    cut: bool = False
    """The claim left some jobs alone because it had enough bytes."""

    @property
    def handler(self) -> str:
        """What runs it: the task, or the flow's step."""
        return f"{self.task}/{self.step}" if self.step else self.task


NotSettled = dict[str, Literal["lost", "locked", "asked", "unasked"]]
"""Jobs by id that a verdict did not touch. `lost`: the claim is not current. `locked`: somebody
has the row locked at this moment. `asked`: the job was asked to stop, so it must not run again.
`unasked`: nobody asked it to stop."""


@dataclass(frozen=True, slots=True)
class Rescued:
    """A job that was taken back from a lost worker."""

    id: str
    worker_id: int
    came_to: Literal["r", "f", "c"]
    """It runs again, it failed, or it was cancelled."""
    task: str
    step: str
    worker_name: str
    crashed: bool
    """The worker crashed, or could not be heard: the job is a suspect."""


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
    """Seconds until the next scheduled job is due; none if there is none."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Keys whose lines were joined, the newest place read, and how many joined."""

    keys: list[str]
    newest: int | None
    count: int


@dataclass(frozen=True, slots=True)
class Admission:
    """What admitting came to."""

    count: int
    places: dict[Lane, int]
    """The first place of those who were let in, by the lane."""
    room_in: dict[str, float]
    """Of keys with a rate, or with a pause that ends by itself: in how many seconds there may be room."""


class Line(NamedTuple):
    """A key that has a line, or starts to be added up, and whether there is something to do under it."""

    key: str
    room: bool
    room_in: float | None
    """Where only a token is missing, or the end of a pause: in how many seconds it comes."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job, live or archived. `error` and `result` are there once it has ended."""

    id: UUID
    task: str
    queue: str
    step: str
    state: State
    priority: int
    attempt: int
    max_attempts: int
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: int | None
    error: Envelope | None = None
    input: Any = None
    result: Any = None
    headers: dict[str, str] | None = None
    progress: dict[str, Any] | None = None
    expires_at: datetime | None = None
    cancelling: bool = False
    keys: dict[str, Any] | None = None
    carried: Any = None

    @classmethod
    def whole(cls, row: Row) -> JobRow:
        """From job.sql."""
        (
            *narrow,
            input_,
            result,
            error,
            headers,
            progress,
            expires_at,
            cancelling,
            keys,
            carried,
        ) = row
        payloads = [_json(text) for text in (error, input_, result, headers, progress)]
        return cls(
            *[*_plain(narrow), *payloads, expires_at, cancelling, _json(keys), _json(carried)]
        )

    @classmethod
    def narrow(cls, row: Row) -> JobRow:
        """From jobs.sql, which reads no payloads."""
        (*narrow, error) = row
        return cls(*[*_plain(narrow), _json(error)])


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt that failed, or a flow's step that was done."""

    step: str
    attempt: int
    claim: int
    started_at: datetime | None
    finished_at: datetime
    worker: int | None
    outcome: Literal["retried", "failed", "cancelled", "moved", "done"]
    """What became of the job with this attempt: tried again, ended, or moved to the next step."""
    next_step: str | None
    error: Envelope | None
    input: Any = None
    """Of a flow's step."""

    @classmethod
    def of(cls, row: Row) -> AttemptRow:
        *facts, outcome, next_step, error, input_ = row
        return cls(*[*facts, _OUTCOMES[_char(outcome)], next_step, _json(error), _json(input_)])


_OUTCOMES: dict[str, Any] = {
    "r": "retried",
    "f": "failed",
    "c": "cancelled",
    "n": "moved",
    "d": "done",
}


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A failed job, as far as it takes to choose whether to try it again."""

    id: str
    task: str
    step: str
    finished_at: datetime
    error_type: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class SuccessorRow:
    """A job that was made because another one failed."""

    id: UUID
    task: str
    queue: str
    state: str

    @classmethod
    def of(cls, row: Row) -> SuccessorRow:
        id_, task, queue, state = row
        return cls(id_, task, queue, State(_char(state)).label)


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """Whether a job has ended, and with what."""

    state: State
    result: str | None
    error: Envelope | None

    @classmethod
    def of(cls, row: Row) -> OutcomeRow:
        state, result, error = row
        return cls(State(_char(state)), result, _json(error))


@dataclass(frozen=True, slots=True)
class QueueRow:
    name: str
    ready: int
    scheduled: int
    blocked: int
    running: int
    waiting: int
    oldest_ready_age: float | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None
    """When it opens by itself; none if someone has to resume it."""
    paused_for: float | None
    """Seconds until then."""
    concurrency: int | None
    """How many of it run at once, in the whole fleet."""
    rate: float | None
    """How many start in a second."""
    burst: int | None
    estimated: bool
    """There are too many jobs to be counted: some of the numbers are those of a while ago."""


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """What a queue holds, and how many of its jobs ever came to which end (each time they did)."""

    name: str
    ready: int
    scheduled: int
    blocked: int
    running: int
    waiting: int
    oldest_ready_age: float | None
    """Seconds since when the oldest ready job could have run; none if none is ready."""
    newest_ready_age: float | None
    succeeded: int
    failed: int
    cancelled: int
    expired: int
    estimated: bool
    """There are too many jobs to be counted: some of the numbers are those of `as_of`."""
    as_of: datetime


@dataclass(frozen=True, slots=True)
class WorkerRow:
    id: int
    name: str
    version: str
    slots: int
    queues: list[str]
    tasks: list[str]
    started_at: datetime
    seen_at: datetime
    alive: bool
    silent_for: float
    sweeps: bool
    draining: bool
    listening: bool | None
    """Whether it hears notifications; none if it has not said."""
    trouble: str | None
    """What is wrong with it."""

    @classmethod
    def of(cls, row: Row) -> WorkerRow:
        id_, name, version, slots, queues, tasks, *rest = row
        return cls(id_, name, version, slots, _json(queues), _json(tasks), *rest)


@dataclass(frozen=True, slots=True)
class ServerRow:
    in_recovery: bool
    version: str
    now: datetime


def _plain(row: list[Any]) -> list[Any]:
    row[4] = State(_char(row[4]))
    return row


def _char(value: str | bytes) -> str:
    # psycopg reads "char" as bytes or text depending on the format it came in.
    return value.decode() if isinstance(value, bytes) else value


def _json(value: str | None) -> Any:
    return None if value is None else codec.readable(value)
