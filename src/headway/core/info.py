"""Public values that describe jobs, queues, schedules and workers. The methods of an app return them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from headway.core.failure import Envelope
from headway.core.firing import CatchUp, Overlap
from headway.core.state import State

JobState = Literal[
    "ready",
    "scheduled",
    "blocked",
    "running",
    "waiting",
    "succeeded",
    "failed",
    "cancelled",
    "expired",
]
"""The state of a job, as people see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """One job without its payloads, as lists show it."""

    id: UUID
    task: str
    queue: str
    step: str
    """The step of a flow; empty for a task."""
    state: JobState
    priority: int
    attempt: int
    max_attempts: int
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: int | None
    error: Envelope | None
    """`type`, `message`, `traceback` and `chain` of the error that ended the job. For an unfinished job:
    of its last attempt, if that failed."""

    @property
    def finished(self) -> bool:
        """Whether the job has ended."""
        return State.of_label(self.state).finished


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus(JobSummary):
    """One job with everything that is stored about it, at one moment."""

    expires_at: datetime | None
    input: Any
    result: Any
    headers: dict[str, str] | None
    progress: dict[str, Any] | None
    """`percent` and `message`, as the handler last reported them."""
    cancelling: bool
    """The job runs and was asked to stop."""
    keys: dict[str, Any] | None
    """`concurrency`, `limit`, `ordered`, `unique` and `until_claimed`, where they are set."""
    carried: Any
    """The state that a flow carries."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that failed, or a step of a flow that was done."""

    step: str
    attempt: int
    claim: int
    started_at: datetime | None
    finished_at: datetime
    worker: int | None
    outcome: Literal["retried", "failed", "cancelled", "moved", "done"]
    """The result for the job after this attempt: it was retried, ended, or moved to the next step."""
    next_step: str | None
    error: Envelope | None
    input: Any = None
    """The input of a flow's step."""


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A job that was enqueued during a test."""

    id: UUID
    task: str
    queue: str
    priority: int
    state: JobState
    run_at: datetime
    headers: dict[str, str]
    args: dict[str, Any]
    """The arguments of the call, of the types in the signature."""


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A failed job, as a candidate for a retry."""

    id: UUID
    task: str
    step: str
    finished_at: datetime
    error_type: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class Successor:
    """A job that was made because another one failed: a dead letter, or a call of `on_failure`."""

    id: UUID
    task: str
    queue: str
    state: JobState


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One job of a group, as its follow-up finds it."""

    place: int
    """Its place in the call, from 0."""
    id: UUID
    task: str | None
    """None if the job has ended and was not kept: then nothing but its id is known."""
    step: str | None
    state: JobState | None
    result: Any
    """Plain JSON; None unless it succeeded."""
    error: Envelope | None


@dataclass(frozen=True, slots=True)
class JobGroup:
    """The group of jobs whose end a follow-up waits or waited for."""

    size: int
    all_but: int
    """How many of them may still live when the follow-up runs."""
    states: dict[JobState, int]
    """How many there are in each state. Jobs that were not kept are in none."""
    gathered_at: datetime | None
    """When the follow-up became ready, or was found to have ended otherwise."""

    @property
    def living(self) -> int:
        """How many have not ended."""
        return sum(
            count for state, count in self.states.items() if not State.of_label(state).finished
        )

    @property
    def ended(self) -> int:
        """How many have ended."""
        return self.size - self.living


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue: its live jobs, its pause and its limits."""

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
    """When the pause ends by itself; None if it lasts until `resume`."""
    paused_for: float | None
    """Seconds until then."""
    concurrency: int | None
    """How many of its jobs may run at once in the whole fleet."""
    rate: float | None
    """How many may start per second."""
    burst: int | None
    estimated: bool
    """There are too many jobs to count: some numbers are from an earlier count."""


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """The live jobs of a queue, and how often its jobs ended in each way since the schema was made."""

    name: str
    ready: int
    scheduled: int
    blocked: int
    running: int
    waiting: int
    oldest_ready_age: float | None
    """Seconds since the oldest ready job became due; None if no job is ready."""
    newest_ready_age: float | None
    succeeded: int
    failed: int
    cancelled: int
    expired: int
    estimated: bool
    """There are too many jobs to count: some numbers are from `as_of`."""
    as_of: datetime


@dataclass(frozen=True, slots=True)
class WaitingCount:
    """How many jobs of one task wait in a queue, in one state."""

    task: str
    state: JobState
    count: int


ControlKind = Literal["queue", "task", "keys", "key"]
"""The kind of thing that a control applies to: a queue, a task, each key of a task, or one key."""


@dataclass(frozen=True, slots=True)
class Control:
    """A pause, limits, or both, of a queue, a task, each key of a task, or one key."""

    kind: ControlKind
    name: str
    paused: bool
    paused_for: float | None
    """Seconds until the pause ends by itself; None if it lasts until `resume`."""
    concurrency: int | None
    rate: float | None
    """Starts per second."""
    burst: int | None
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    pause_reason: str | None
    declared: dict[str, Any] | None
    """The limits that the code declares."""
    changed_at: datetime | None
    """When somebody set other limits than the declared ones."""
    changed_by: str | None

    @property
    def limited(self) -> bool:
        """Whether a limit is in force."""
        return self.concurrency is not None or self.rate is not None

    @property
    def in_force(self) -> bool:
        """Whether anything is set: false for the remains of a pause that has ended."""
        return self.paused or self.limited or bool(self.declared or self.changed_at)


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker process, alive or recently gone."""

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
    """Seconds since its last heartbeat."""
    leader: bool
    """Whether it is the one that runs the sweeps."""
    draining: bool
    listening: bool | None
    """Whether it receives notifications; None if it has not reported that."""
    trouble: str | None
    """Why it is unhealthy."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The PostgreSQL server."""

    in_recovery: bool
    version: str
    now: datetime
    """The time by the server's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The whole fleet at one moment."""

    server: ServerInfo
    queues: list[QueueInfo]
    workers: list[WorkerInfo]
    controls: list[Control]
    unserved: dict[str, int]
    """Ready jobs by task, for tasks that no live worker knows."""
    lock_waits: list[str]
    """Which session of a worker waits for which other session, in words."""


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule as it stands. Moments are in its time zone."""

    name: str
    task: str
    spec: str
    input: Any
    next_at: datetime | None
    """The next occurrence, as if it were not paused; None if there is none."""
    last_at: datetime | None
    """The newest occurrence that made a job."""
    last_job: UUID | None
    catch_up: CatchUp
    max_catch_up: int
    overlap: Overlap
    jitter: float
    ends_at: datetime | None
    paused: bool
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    owner: str
    declared: bool
    """Whether code declares it; false if it was put at run time."""
    created_at: datetime
    changed_at: datetime
