"""`InlineFixture`: what the pytest fixture `headway_inline` gives to a unit test, without a database."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast
from uuid import UUID

from headway._api.apps import Redirection, redirected
from headway.core import codec
from headway.core.clock import Clock
from headway.core.definition import Definition
from headway.core.duration import Duration, seconds
from headway.core.info import JobState, JobStatus
from headway.engine.jobs.settler import WorkerReport
from headway.engine.running.invoke import Overrides
from headway.errors import ConfigError
from headway.store.connections.connect import Target
from headway.store.connections.identity import NOWHERE
from headway.store.documents import new_jobs
from headway.store.rows import MadeJob, OutcomeRow
from headway.store.scripts import Script, reply_to, statement_of
from headway.store.statement import Statement
from headway.testing import memory
from headway.testing.failures import ExpectedFailure, Failures
from headway.testing.lookup import AnyTask, Looking, apps_with_tasks, name_of
from headway.testing.memory import MemoryJob, MemoryJobs

R = TypeVar("R")

_MOST_MOVES = 1_000
_TARGET = Target("", "inline", notify=False)


class InlineFixture(Looking):
    """Keeps jobs in memory and runs their handlers in the test itself, one at a time.

    Plain functions run in the thread of the test in sync runs, so they see its open transactions.
    """

    def __init__(self) -> None:
        self._clock = Clock.standing()
        self._jobs = MemoryJobs(self._clock, _find)
        self._failures = Failures()
        self._at_once = False

    @contextmanager
    def in_use(self) -> Generator[InlineFixture]:
        """Take the place of the database of all apps. At the end, look for failures nobody saw."""
        client = MemoryClient(self._jobs, self._enqueued, self._enqueued_sync)
        redirection = Redirection(
            "", lambda _: "", self._clock, {"target": _TARGET, "client": client}
        )
        with redirected(redirection):
            yield self
            self._check(final_only=True)

    def now(self) -> datetime:
        """Return the time of the test, in UTC. It stands still until `advance` or `drain`."""
        return self._clock.read()

    def advance(self, by: Duration) -> datetime:
        """Move the time forward, and return it."""
        self._clock.advance(timedelta(seconds=seconds(by, name="advance")))
        return self.now()

    @contextmanager
    def at_once(self) -> Generator[None]:
        """Run jobs when they are enqueued, before `enqueue` returns, and not at the next run."""
        self._at_once, before = True, self._at_once
        try:
            yield
        finally:
            self._at_once = before

    async def run_until_idle(self) -> WorkerReport:
        """Run the jobs that are due now. Raise JobsFailed if an attempt failed."""
        self._jobs.settled.clear()
        await self._run()
        return self._report()

    async def drain(self) -> WorkerReport:
        """Run all jobs, and move the time to where the next one waits. Raise JobsFailed if one failed."""
        self._jobs.settled.clear()
        await self._run()
        while self._to_next_moment():
            await self._run()
        return self._report()

    def run_until_idle_sync(self) -> WorkerReport:
        """Sync version of `run_until_idle`."""
        self._jobs.settled.clear()
        self._run_sync()
        return self._report()

    def drain_sync(self) -> WorkerReport:
        """Sync version of `drain`."""
        self._jobs.settled.clear()
        self._run_sync()
        while self._to_next_moment():
            self._run_sync()
        return self._report()

    def expect_failure(
        self,
        task: AnyTask | None = None,
        error: type[BaseException] | str | None = None,
        *,
        match: str | None = None,
    ) -> AbstractContextManager[ExpectedFailure]:
        """Expect attempts to fail inside this block. See `HeadwayFixture.expect_failure`."""
        name = None if task is None else name_of(task)
        return self._failures.expect(name, error, match, self._check)

    async def _run(self) -> None:
        run = self._jobs.run()
        try:
            call = next(run)
            while True:
                call = run.send(await memory.outcome(call))
        except StopIteration:
            return

    def _run_sync(self) -> None:
        run = self._jobs.run()
        try:
            call = next(run)
            while True:
                call = run.send(memory.outcome_sync(call))
        except StopIteration:
            return

    async def _enqueued(self) -> None:
        if self._at_once:
            await self._run()
            self._check()

    def _enqueued_sync(self) -> None:
        if self._at_once:
            self._run_sync()
            self._check()

    def _to_next_moment(self) -> bool:
        moment = self._jobs.next_moment()
        if moment is None:
            return False
        if sum(self._jobs.settled.values()) > _MOST_MOVES:
            raise AssertionError(f"{_MOST_MOVES} attempts ran, and jobs still wait; use advance")
        self._clock.move_to(max(moment, self._clock.read()))
        return True

    def _report(self) -> WorkerReport:
        self._check()
        return WorkerReport(dict(self._jobs.settled), 0)

    def _check(self, *, final_only: bool = False) -> None:
        ended = {key for key, job in self._jobs.jobs.items() if job.state.finished}
        self._failures.check(
            self._jobs.broken,
            ended.__contains__,
            lambda one: self._jobs.raised.get((one.job_id, one.claim)),
            final_only=final_only,
        )

    def _made(self, task: str | None, conn: Any) -> list[MadeJob]:
        jobs = sorted(self._jobs.jobs.values(), key=lambda job: job.seq)
        return [job.made() for job in jobs if task in (None, job.task)]


class MemoryClient:
    """Answers the statements of enqueueing and of looking at a job. It stands in for `Client`."""

    patience: float | None = None

    def __init__(
        self,
        jobs: MemoryJobs,
        enqueued: Callable[[], Any],
        enqueued_sync: Callable[[], None],
    ) -> None:
        """`enqueued` and its sync form are called after jobs were made."""
        self._jobs = jobs
        self._enqueued = enqueued
        self._enqueued_sync = enqueued_sync

    async def run_all(self, statements: Sequence[Statement[Any]], **_: Any) -> list[Any]:
        """Return the answers of several statements."""
        answers = self._answers(statements)
        if _makes_jobs(statements):
            await self._enqueued()
        return answers

    def run_all_sync(self, statements: Sequence[Statement[Any]], **_: Any) -> list[Any]:
        """Return the answers of several statements."""
        answers = self._answers(statements)
        if _makes_jobs(statements):
            self._enqueued_sync()
        return answers

    async def run_in(self, conn: Any, make: Callable[[Any], list[Statement[Any]]]) -> list[Any]:
        """Return the answers of statements. The caller's connection is left alone."""
        return await self.run_all(make(NOWHERE))

    def run_in_sync(self, conn: Any, make: Callable[[Any], list[Statement[Any]]]) -> list[Any]:
        """Return the answers of statements. The caller's connection is left alone."""
        return self.run_all_sync(make(NOWHERE))

    async def play(self, script: Script[R], until: float | None = None) -> R:
        """Return the answer of a script."""
        return self.play_sync(script)

    def play_sync(self, script: Script[R], until: float | None = None) -> R:
        """Return the answer of a script."""
        try:
            step = next(script)
            while True:
                (answer,) = self._answers([statement_of(step)])
                step = script.send(reply_to(step, answer, False))
        except StopIteration as finished:
            value: R = finished.value
            return value

    async def open(self) -> None:
        """Open nothing."""

    def open_sync(self) -> None:
        """Open nothing."""

    async def close(self) -> None:
        """Close nothing."""

    def close_sync(self, *, loops: bool = False) -> None:
        """Close nothing."""

    def _answers(self, statements: Sequence[Statement[Any]]) -> list[Any]:
        return [self._answer(statement) for statement in statements]

    def _answer(self, statement: Statement[Any]) -> Any:
        match statement.name:
            case "moves/enqueue" | "writes/enqueue_in":
                return self._jobs.make(new_jobs(statement.params["jobs"]))
            case "reads/job":
                job = self._jobs.jobs.get(statement.params["id"])
                return None if job is None else _status(job)
            case "reads/outcome":
                return self._outcome(statement.params["id"])
            case name:
                raise ConfigError(
                    f"the fixture headway_inline has no database for {name}; use the fixture headway"
                )

    def _outcome(self, job_id: str) -> OutcomeRow | None:
        job = self._jobs.jobs.get(job_id)
        if job is not None and job.state.finished:
            result = None if job.result is None else job.result.decode()
            return OutcomeRow(job.state, result, job.error)
        raise ConfigError(f"job {job_id} has not ended; call run_until_idle or drain before result")


def _makes_jobs(statements: Sequence[Statement[Any]]) -> bool:
    return any("enqueue" in statement.name for statement in statements)


def _find(handler: str) -> tuple[Definition, Overrides, int] | None:
    for app in apps_with_tasks():
        if (definition := app.registry.definitions().get(handler)) is not None:
            return definition, app.session.overrides, app.session.max_payload_bytes
    return None


def _status(job: MemoryJob) -> JobStatus:
    return JobStatus(
        id=UUID(job.new.id),
        task=job.task,
        queue=job.queue,
        step=job.step,
        state=cast(JobState, job.state.label),
        priority=job.priority,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        run_at=job.run_at,
        created_at=job.created_at,
        started_at=None,
        finished_at=job.finished_at,
        worker=None,
        error=job.error,
        expires_at=None,
        input=codec.decode(job.input),
        result=None if job.result is None else codec.decode(job.result),
        headers=job.new.headers,
        progress=job.progress,
        cancelling=False,
        keys=None,
        carried=None if job.carried is None else codec.decode(job.carried),
    )
