"""`HeadwayFixture`: what the pytest fixture `headway` gives to a test."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any, Unpack

from headway._api.apps import Redirection, redirected
from headway.core.clock import Clock
from headway.core.config import WorkerSettings
from headway.core.duration import Duration, seconds
from headway.engine.jobs.settler import WorkerReport
from headway.store.rows import BrokenAttempt, MadeJob
from headway.store.spare_schemas import SpareSchemas
from headway.store.statements import testing
from headway.testing.failures import ExpectedFailure, Failures
from headway.testing.lookup import AnyTask, Looking, apps_with_tasks, definitions, name_of
from headway.testing.rigged import RiggedHandlers, When
from headway.testing.running import Runs


class HeadwayFixture(Looking):
    """Runs jobs, moves the time, and answers questions, in a test with a schema of its own."""

    def __init__(self, schemas: SpareSchemas) -> None:
        self._schemas = schemas
        self._clock = Clock.standing()
        self._redirection = Redirection(schemas.dsn, lambda _: schemas.take(), self._clock)
        self._rigged = RiggedHandlers()
        self._failures = Failures()
        self._runs = Runs(self._clock, self._rigged)

    @contextmanager
    def in_use(self) -> Generator[HeadwayFixture]:
        """Redirect all apps to empty schemas. At the end of the test, look for failures nobody saw."""
        try:
            with redirected(self._redirection):
                yield self
                self._look_at_the_end()
        finally:
            for schema in self._redirection.schemas.values():
                self._schemas.give_back(schema)

    @property
    def dsn(self) -> str:
        """The database of the test, for connections of your own."""
        return self._schemas.dsn

    # -- time -------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """Return the time of the test, in UTC. It stands still until `advance`, `drain` or `run_for`."""
        return self._clock.read()

    def advance(self, by: Duration) -> datetime:
        """Move the time forward, and return it. Nothing runs, as if all workers had been down meanwhile.

        Called while a handler runs, it times out attempts whose timeout has passed.
        """
        self._clock.advance(timedelta(seconds=seconds(by, name="advance")))
        return self.now()

    # -- running ----------------------------------------------------------------------------------

    async def run_until_idle(
        self, *, within: Duration = "60s", **settings: Unpack[WorkerSettings]
    ) -> WorkerReport:
        """Run the jobs that are due now, and return when none is left. The time stands still.

        Raise JobsFailed if an attempt failed. `within` is a limit in real time. Settings are those of a
        worker.
        """
        report = await self._runs.until_idle(seconds(within), settings)
        self._check()
        return report

    async def drain(
        self, *, within: Duration = "60s", **settings: Unpack[WorkerSettings]
    ) -> WorkerReport:
        """Run all jobs, and move the time whenever the next one waits for it: delays, retries, rates.

        Return when no job is left that could run. The time is not moved for schedules, which never end:
        see `run_for`. Raise JobsFailed if a job failed for good.
        """
        report = await self._runs.drain(seconds(within), settings)
        self._check()
        return report

    async def run_for(
        self, duration: Duration, *, within: Duration = "60s", **settings: Unpack[WorkerSettings]
    ) -> WorkerReport:
        """Let the time pass with a worker running: everything that is due meanwhile runs at its moment.

        Schedules fire, too. Raise JobsFailed if a job failed for good.
        """
        until = self.now() + timedelta(seconds=seconds(duration, name="duration"))
        report = await self._runs.up_to(until, seconds(within), settings)
        self._check(final_only=True)
        return report

    def run_until_idle_sync(
        self, *, within: Duration = "60s", **settings: Unpack[WorkerSettings]
    ) -> WorkerReport:
        """Sync version of `run_until_idle`."""
        return self._runs.sync(self.run_until_idle(within=within, **settings))

    def drain_sync(
        self, *, within: Duration = "60s", **settings: Unpack[WorkerSettings]
    ) -> WorkerReport:
        """Sync version of `drain`."""
        return self._runs.sync(self.drain(within=within, **settings))

    def run_for_sync(
        self, duration: Duration, *, within: Duration = "60s", **settings: Unpack[WorkerSettings]
    ) -> WorkerReport:
        """Sync version of `run_for`."""
        return self._runs.sync(self.run_for(duration, within=within, **settings))

    # -- failures ---------------------------------------------------------------------------------

    def expect_failure(
        self,
        task: AnyTask | None = None,
        error: type[BaseException] | str | None = None,
        *,
        match: str | None = None,
    ) -> AbstractContextManager[ExpectedFailure]:
        """Expect attempts to fail inside this block. Raise AssertionError if none does.

        `task` is a task, a flow, or the name of one, or `flow/step`. `error` is an exception class or its
        name, and `match` a pattern in the message.

        >>> with headway.expect_failure(charge, Declined) as expected:      # doctest: +SKIP
        ...     headway.drain_sync()
        >>> assert len(expected.failures) == 3                              # doctest: +SKIP
        """
        name = None if task is None else name_of(task)
        return self._failures.expect(name, error, match, self._check)

    def crash_at(self, step: AnyTask, when: When = "before") -> None:
        """Crash the worker once: before this task or step runs, or after it, before that is written down.

        Nothing of the attempt is committed. Other jobs of the worker crash with it: their handlers are
        cancelled. The run goes on with another worker, which finds what a crash leaves behind. The jobs
        come back after a pause, so use `drain`, or `advance` and another run.
        """
        self._rigged.crash_at(handler_of(step), when, definitions())

    def _look_at_the_end(self) -> None:
        self._check(final_only=True)
        for point in self._rigged.crash_points:
            if not point.happened:
                raise AssertionError(f"crash_at({point.name!r}) was never reached")

    def _check(self, *, final_only: bool = False) -> None:
        for schema in self._redirection.schemas.values():
            broken = self._schemas.ask(schema, testing.broken())
            if not broken:
                continue
            made = self._schemas.ask(schema, testing.enqueued(None))
            ended = {one.id for one in made if one.state.finished}
            self._failures.check(broken, ended.__contains__, self._raised, final_only=final_only)

    def _raised(self, one: BrokenAttempt) -> BaseException | None:
        return self._rigged.raised(one.handler, one.error)

    def _made(self, task: str | None, conn: Any) -> list[MadeJob]:
        statement = testing.enqueued(task)
        if conn is not None:
            (app, *_) = apps_with_tasks()
            made: list[MadeJob] = app.session.run_in_sync(conn, lambda _: [statement])[0]
            return made
        schemas = self._redirection.schemas.values()
        return [one for schema in schemas for one in self._schemas.ask(schema, statement)]


def handler_of(step: AnyTask | Any) -> str:
    """Return the name of a step as `flow/step`, or of a task."""
    definition = getattr(step, "definition", None)
    return definition.handler if definition is not None else name_of(step)
