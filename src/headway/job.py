"""`Job`: a handle on one job, from anywhere that has its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from uuid import UUID

from headway._api.session import Session
from headway.core import codec
from headway.core.clock import monotonic
from headway.core.definition import Definition
from headway.core.duration import Duration, optional_seconds
from headway.core.info import Attempt, GroupMember, JobGroup, JobStatus
from headway.core.state import State
from headway.errors import (
    DatabaseUnavailable,
    InvalidInput,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotFound,
    ResultTimeout,
)
from headway.store import scripts
from headway.store.rows import OutcomeRow
from headway.store.statements import groups, inspect

R = TypeVar("R")

_FAILURES = {
    State.FAILED: JobFailed,
    State.CANCELLED: JobCancelled,
    State.EXPIRED: JobExpired,
}


class Job(Generic[R]):
    """One job. Made by `enqueue`, or by `Headway.job` from an id.

    >>> job = await add.enqueue(1, 2)           # doctest: +SKIP
    >>> await job.result(timeout="10s")         # doctest: +SKIP
    3
    """

    __slots__ = ("_definition", "_id", "_session", "created")

    def __init__(
        self,
        session: Session,
        job_id: UUID | str,
        definition: Definition | None,
        *,
        created: bool = True,
    ) -> None:
        self._id = job_id
        self.created = created
        """False if a unique key was taken: then this is the job that has it."""
        self._session = session
        self._definition = definition

    @property
    def id(self) -> UUID:
        """The id of the job."""
        # A call of enqueue_many makes thousands of handles, whose ids are seldom read.
        if isinstance(self._id, str):
            self._id = UUID(self._id)
        return self._id

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def status(self) -> JobStatus:
        """Return everything that is stored about the job. Raise JobNotFound if it does not exist."""
        status = await self._session.run(inspect.job(self.id))
        if status is None:
            raise JobNotFound(self.id)
        return status

    async def history(self) -> list[Attempt]:
        """Return every attempt that failed and every step of a flow that was done, oldest first."""
        return await self._session.run(inspect.attempts(self.id))

    async def attempts(self) -> list[Attempt]:
        """Return every attempt that failed, oldest first."""
        return [attempt for attempt in await self.history() if attempt.error is not None]

    async def explain(self) -> list[str]:
        """Return why the job does not run, or how it ended: the most certain reason first.

        Raise JobNotFound if it does not exist.
        """
        status, reasons = await self._session.run_all(
            [inspect.job(self.id), inspect.explain(self.id)]
        )
        if status is None:
            raise JobNotFound(self.id)
        found: list[str] = reasons
        return found

    async def group(self) -> JobGroup | None:
        """Return the group that this job waits or waited for; None if it does not follow one."""
        return await self._session.run(groups.group(self.id))

    async def members(self) -> list[GroupMember]:
        """Return the jobs of the group that this job follows, with results, in order of the call."""
        return await self._session.run(scripts.members(self.id))

    async def cancel_members(self) -> int:
        """Cancel the jobs of the group that have not ended. Return how many, running ones included.

        The job itself then runs; to stop it too, cancel it first.
        """
        return await self._session.run(self._cancel_members())

    async def cancel(self) -> bool:
        """Cancel the job if it waits, or ask its worker to stop it. Return false if it had ended."""
        return await self._session.run(self._cancel())

    async def retry(self, from_step: str | None = None) -> bool:
        """Run a failed, cancelled or expired job again with fresh attempts, or a scheduled job now.

        A flow resumes at the step where it stands, or at `from_step`, an earlier step, with the input
        that it had there. Return false if there is nothing to retry: the job waits, runs, succeeded, or
        was never at that step.
        """
        return await self._session.run(self._revive(from_step))

    async def edit(self, input: Mapping[str, Any], *, check: bool = True) -> bool:  # noqa: A002
        """Replace the whole input of the job. Return false if it runs or succeeded.

        The task or step where the job stands checks the input; `check=False` is for a task that this
        app does not define. The keys of the job stay the same.
        """
        return await self._session.run(self._edit(input, check))

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait for the job to end and return its result.

        Raise JobFailed, JobCancelled or JobExpired if it ended without one, and ResultTimeout after
        `timeout`; the job then continues. A notification ends the wait.
        """
        session, wait = self._session, _Wait(self.id, timeout)
        with wait:
            outcome = await session.run(scripts.ended(self.id), wait.until)
            if outcome is None:
                async with session.ends_of_jobs(wait.left) as ends:
                    waiting = scripts.await_end(self.id, session.clock.now())
                    outcome = await session.run(waiting, wait.until)
                    while outcome is None:
                        await ends.wait(str(self.id), wait.again(), wait.left)
                        outcome = await session.run(scripts.ended(self.id), wait.until)
        return self._result(outcome)

    # -- sync: generated by scripts/sync from the async methods; do not edit --

    def status_sync(self) -> JobStatus:
        """Sync version of `status`.

        Return everything that is stored about the job. Raise JobNotFound if it does not exist.
        """
        status = self._session.run_sync(inspect.job(self.id))
        if status is None:
            raise JobNotFound(self.id)
        return status

    def history_sync(self) -> list[Attempt]:
        """Sync version of `history`.

        Return every attempt that failed and every step of a flow that was done, oldest first.
        """
        return self._session.run_sync(inspect.attempts(self.id))

    def attempts_sync(self) -> list[Attempt]:
        """Sync version of `attempts`.

        Return every attempt that failed, oldest first.
        """
        return [attempt for attempt in self.history_sync() if attempt.error is not None]

    def explain_sync(self) -> list[str]:
        """Sync version of `explain`.

        Return why the job does not run, or how it ended: the most certain reason first.
        """
        status, reasons = self._session.run_all_sync(
            [inspect.job(self.id), inspect.explain(self.id)]
        )
        if status is None:
            raise JobNotFound(self.id)
        found: list[str] = reasons
        return found

    def group_sync(self) -> JobGroup | None:
        """Sync version of `group`.

        Return the group that this job waits or waited for; None if it does not follow one.
        """
        return self._session.run_sync(groups.group(self.id))

    def members_sync(self) -> list[GroupMember]:
        """Sync version of `members`.

        Return the jobs of the group that this job follows, with results, in order of the call.
        """
        return self._session.run_sync(scripts.members(self.id))

    def cancel_members_sync(self) -> int:
        """Sync version of `cancel_members`.

        Cancel the jobs of the group that have not ended. Return how many, running ones
        included.
        """
        return self._session.run_sync(self._cancel_members())

    def cancel_sync(self) -> bool:
        """Sync version of `cancel`.

        Cancel the job if it waits, or ask its worker to stop it. Return false if it had ended.
        """
        return self._session.run_sync(self._cancel())

    def retry_sync(self, from_step: str | None = None) -> bool:
        """Sync version of `retry`.

        Run a failed, cancelled or expired job again with fresh attempts, or a scheduled job
        now.
        """
        return self._session.run_sync(self._revive(from_step))

    def edit_sync(self, input: Mapping[str, Any], *, check: bool = True) -> bool:  # noqa: A002
        """Sync version of `edit`.

        Replace the whole input of the job. Return false if it runs or succeeded.
        """
        return self._session.run_sync(self._edit(input, check))

    def result_sync(self, timeout: Duration | None = None) -> R:
        """Sync version of `result`.

        Wait for the job to end and return its result.
        """
        session, wait = self._session, _Wait(self.id, timeout)
        with wait:
            outcome = session.run_sync(scripts.ended(self.id), wait.until)
            if outcome is None:
                with session.ends_of_jobs_sync(wait.left) as ends:
                    waiting = scripts.await_end(self.id, session.clock.now())
                    outcome = session.run_sync(waiting, wait.until)
                    while outcome is None:
                        ends.wait_sync(str(self.id), wait.again(), wait.left)
                        outcome = session.run_sync(scripts.ended(self.id), wait.until)
        return self._result(outcome)

    # -- end of the generated methods --

    def _cancel(self) -> scripts.Script[bool]:
        session = self._session
        return (yield from scripts.cancel(session.target, self.id, session.clock.now()))

    def _cancel_members(self) -> scripts.Script[int]:
        session = self._session
        return (yield from scripts.cancel_members(session.target, self.id, session.clock.now()))

    def _revive(self, from_step: str | None) -> scripts.Script[bool]:
        session = self._session
        return (yield from scripts.revive(session.target, self.id, from_step, session.clock.now()))

    def _edit(self, arguments: Mapping[str, Any], check: bool) -> scripts.Script[bool]:
        if not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"the input {arguments!r} is not a mapping; give arguments by name")

        def encode(task: str, step: str) -> bytes:
            most_bytes = self._session.max_payload_bytes
            if not check:
                encoded = codec.encode(dict(arguments))
            else:
                definition = self._session.definition(task, step)
                encoded = definition.encode(definition.bind((), arguments))
            return codec.check_size(encoded, most_bytes, "the input")

        return scripts.edit(self.id, encode)

    def _result(self, outcome: OutcomeRow) -> R:
        if outcome.state is not State.SUCCEEDED:
            raise _FAILURES[outcome.state](self.id, outcome.state.label, outcome.error)
        text = outcome.result or "null"
        decode = codec.decode if self._definition is None else self._definition.result.decode
        result: R = decode(text)
        return result


class _Wait:
    """The time that a caller of `result` has left. Raise ResultTimeout when it is up."""

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
