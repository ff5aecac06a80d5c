"""`Job`: a handle on one job, from anywhere that has its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from headway.core import codec
from headway.core.clock import monotonic
from headway.core.definition import Definition
from headway.core.duration import Duration, optional_seconds
from headway.core.failure import Envelope
from headway.core.state import State
from headway.errors import (
    DatabaseUnavailable,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotFound,
    ResultTimeout,
)
from headway.session import Session
from headway.store import inspect, scripts
from headway.store.rows import AttemptRow, JobRow, OutcomeRow

R = TypeVar("R")

_FAILURES = {
    State.FAILED: JobFailed,
    State.CANCELLED: JobCancelled,
    State.EXPIRED: JobExpired,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """What is known of a job at one moment."""

    id: UUID
    task: str
    queue: str
    step: str
    state: str
    """ready, scheduled, blocked, running, waiting, succeeded, failed, cancelled or expired."""
    priority: int
    attempt: int
    max_attempts: int
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    worker: int | None
    input: Any
    result: Any
    error: Envelope | None
    """`type`, `message`, `traceback` and `chain` of what failed it, once it has ended."""
    headers: dict[str, str] | None
    progress: dict[str, Any] | None
    """`percent` and `message`, as the handler last said."""
    cancelling: bool
    """It runs and was asked to stop."""
    keys: dict[str, Any] | None
    """`concurrency`, `limit`, `ordered`, `unique`: those that it has."""
    carried: Any
    """The state of a flow that carries one."""

    @property
    def finished(self) -> bool:
        return State.of_label(self.state).finished

    @classmethod
    def of(cls, row: JobRow) -> JobStatus:
        fields = {name: getattr(row, name) for name in cls.__slots__ if name != "state"}
        return cls(state=row.state.label, **fields)


class Job(Generic[R]):
    """One job. Made by `enqueue`, or by `Headway.job` from an id.

    >>> job = await add.enqueue(1, 2)           # doctest: +SKIP
    >>> await job.result(timeout="10s")         # doctest: +SKIP
    3
    """

    __slots__ = ("_definition", "_session", "id", "made")

    def __init__(
        self,
        session: Session,
        job_id: UUID,
        definition: Definition | None,
        *,
        made: bool = True,
    ) -> None:
        self.id = job_id
        self.made = made
        """False if a unique key was taken: then this is the job that has it."""
        self._session = session
        self._definition = definition

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def status(self) -> JobStatus:
        """What is known of it now; JobNotFound if it does not exist."""
        return self._status(await (await self._session.ready_client()).run(inspect.job(self.id)))

    def status_sync(self) -> JobStatus:
        """As `status`."""
        return self._status(self._session.client.run_sync(inspect.job(self.id)))

    async def history(self) -> list[AttemptRow]:
        """Every attempt that failed and every step of a flow that was done, oldest first."""
        return await (await self._session.ready_client()).run(inspect.attempts(self.id))

    def history_sync(self) -> list[AttemptRow]:
        """As `history`."""
        return self._session.client.run_sync(inspect.attempts(self.id))

    async def attempts(self) -> list[AttemptRow]:
        """Every attempt that failed, oldest first."""
        return [attempt for attempt in await self.history() if attempt.error is not None]

    def attempts_sync(self) -> list[AttemptRow]:
        """As `attempts`."""
        return [attempt for attempt in self.history_sync() if attempt.error is not None]

    async def cancel(self) -> bool:
        """Cancels it while it waits, or has its worker stop it; false if it had ended already."""
        return await (await self._session.ready_client()).play(self._cancel())

    def cancel_sync(self) -> bool:
        """As `cancel`."""
        return self._session.client.play_sync(self._cancel())

    async def retry(self, from_step: str | None = None) -> bool:
        """Runs a failed, cancelled or expired job again, with fresh attempts; a scheduled one now.

        A flow resumes at the step where it stands, or at `from_step`, an earlier one, with the input
        that it had there. False if there is nothing to repeat: it waits already, runs, succeeded, or
        has never been at that step.
        """
        return await (await self._session.ready_client()).play(self._revive(from_step))

    def retry_sync(self, from_step: str | None = None) -> bool:
        """As `retry`."""
        return self._session.client.play_sync(self._revive(from_step))

    async def edit(self, input: Mapping[str, Any], *, check: bool = True) -> bool:  # noqa: A002
        """Gives it another input, whole, checked by the task or step where it stands.

        False if it runs or has succeeded. Its keys stay as they were made. `check=False` is for a
        task that this app does not know.
        """
        return await (await self._session.ready_client()).play(self._edit(input, check))

    def edit_sync(self, input: Mapping[str, Any], *, check: bool = True) -> bool:  # noqa: A002
        """As `edit`."""
        return self._session.client.play_sync(self._edit(input, check))

    async def result(self, timeout: Duration | None = None) -> R:
        """What the job returned, once it has; JobFailed if it did not, ResultTimeout if too late.

        The wait is ended by a notification from whoever ends the job.
        """
        session, wait = self._session, _Wait(self.id, timeout)
        client = await session.ready_client()
        with wait:
            outcome = await client.play(scripts.ended(self.id), wait.until)
            if outcome is None:
                results = await session.results(wait.left)
                waiting = scripts.await_end(self.id, session.clock.now())
                outcome = await client.play(waiting, wait.until)
                while outcome is None:
                    await results.wait(str(self.id), wait.again(), wait.left)
                    outcome = await client.play(scripts.ended(self.id), wait.until)
        return self._result(outcome)

    def result_sync(self, timeout: Duration | None = None) -> R:
        """As `result`."""
        session, wait = self._session, _Wait(self.id, timeout)
        client = session.client
        with wait:
            outcome = client.play_sync(scripts.ended(self.id), wait.until)
            if outcome is None:
                with session.ear(wait.left) as ear:
                    waiting = scripts.await_end(self.id, session.clock.now())
                    outcome = client.play_sync(waiting, wait.until)
                    while outcome is None:
                        ear.wait(str(self.id), wait.again(), wait.left)
                        outcome = client.play_sync(scripts.ended(self.id), wait.until)
        return self._result(outcome)

    def _cancel(self) -> scripts.Script[bool]:
        return scripts.cancel(self._session.target, self.id, self._session.clock.now())

    def _revive(self, from_step: str | None) -> scripts.Script[bool]:
        return scripts.revive(self._session.target, self.id, from_step, self._session.clock.now())

    def _edit(self, arguments: Mapping[str, Any], check: bool) -> scripts.Script[bool]:
        def encode(task: str, step: str) -> bytes:
            most_bytes = self._session.max_payload_bytes
            if not check:
                encoded = codec.encode(dict(arguments))
            else:
                definition = self._session.definition(task, step)
                encoded = definition.encode(definition.bind((), arguments))
            return codec.check_size(encoded, most_bytes, "the input")

        return scripts.edit(self.id, encode)

    def _status(self, row: JobRow | None) -> JobStatus:
        if row is None:
            raise JobNotFound(self.id)
        return JobStatus.of(row)

    def _result(self, outcome: OutcomeRow) -> R:
        if outcome.state is not State.SUCCEEDED:
            raise _FAILURES[outcome.state](self.id, outcome.state.label, outcome.error)
        text = outcome.result or "null"
        decode = codec.decode if self._definition is None else self._definition.result.decode
        result: R = decode(text)
        return result


class _Wait:
    """How long someone has waited and may still. Raises `ResultTimeout` when the time is up."""

    def __init__(self, job_id: UUID, timeout: Duration | None) -> None:
        self._job_id = job_id
        self._timeout = timeout
        limit = optional_seconds(timeout, name="timeout")
        self.until = None if limit is None else monotonic() + limit
        self._tries = 0

    @property
    def left(self) -> float | None:
        """Return the seconds left; None without a limit."""
        return None if self.until is None else max(self.until - monotonic(), 0.0)

    def again(self) -> int:
        """Return how many waits there were, and count another."""
        if self.left == 0:
            raise self._too_late()
        self._tries += 1
        return self._tries - 1

    def __enter__(self) -> _Wait:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DatabaseUnavailable) and self.left == 0:
            raise self._too_late(f"; the database could not be reached: {error}") from error

    def _too_late(self, why: str = "") -> ResultTimeout:
        return ResultTimeout(
            f"job {self._job_id} did not finish within {self._timeout}; it goes on, and its "
            f"result can be asked for again{why}"
        )
