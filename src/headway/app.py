"""`Headway`: the object an application holds. It composes; the work is done elsewhere."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload
from uuid import UUID

from headway.controls import Controls
from headway.core.batch import Batch
from headway.core.config import CleanUp, Retention, WorkerSettings
from headway.core.context import Context
from headway.core.duration import Duration, optional_seconds
from headway.core.failure import Failure
from headway.core.schedule import Scheduled
from headway.declared import DeclaredSchedules
from headway.define import FlowOptions, TaskOptions, define_task
from headway.engine import loop
from headway.engine.jobs.settler import Report
from headway.engine.maintenance.declarations import Declared
from headway.engine.worker import Worker
from headway.errors import ConfigError, UnknownTask
from headway.failures import Which, bad_pattern_explained, check_since, failures, retry_failed
from headway.flow import Flow
from headway.handle import Job
from headway.pull import Pulling
from headway.queues import Queues
from headway.schedule import Schedules
from headway.session import Session
from headway.settings.layers import Settings, of_app
from headway.store import fleet
from headway.task import BatchDecorator, Task, TaskDecorator, Unnamed
from headway.version import __version__

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Headway(Pulling):
    """Tasks, and the database their jobs live in.

    >>> hw = Headway("postgresql://localhost/app")
    >>> @hw.task
    ... async def add(a: int, b: int) -> int:
    ...     return a + b

    Without a DSN it is $HEADWAY_DATABASE_URL, else $DATABASE_URL, else what headway.toml says, else
    an embedded PostgreSQL kept in ./.headway. What is not given here is as configured (`settings`).
    Nothing is opened, and no file is read, before it is used.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str | None = None,
        notify: bool | None = None,
        retention: Retention | None = None,
        pool_size: int | None = None,
        max_payload_bytes: int | None = None,
        local: str | Path | None = None,
        embedded: bool | None = None,
        name: str | None = None,
        schedules: CleanUp | None = None,
        worker: WorkerSettings | None = None,
    ) -> None:
        """`notify=False` leaves LISTEN/NOTIFY alone: no lock in your commits, workers poll. `worker`
        are options for every worker of the app that is not told otherwise. `embedded=False` refuses to
        go on without a database that is named. `schedules` says what
        becomes of those that the code declared and declares no more, under the app's `name`."""
        self.session = Session(
            of_app(
                retention,
                worker,
                database_url=dsn,
                schema=schema,
                notify=notify,
                pool_size=pool_size,
                max_payload_bytes=max_payload_bytes,
                local=local,
                embedded=embedded,
                name=name,
                schedules=schedules,
            )
        )
        self.tasks: dict[str, Task[..., Any] | Flow[Any]] = {}
        self._declared = DeclaredSchedules()

    @property
    def dependency_overrides(self) -> dict[Callable[..., Any], Callable[..., Any]]:
        """For tests: what to call instead of a function given to `Depends`."""
        return self.session.overrides

    @dependency_overrides.setter
    def dependency_overrides(self, overrides: dict[Callable[..., Any], Callable[..., Any]]) -> None:
        self.session.overrides = overrides

    @property
    def dsn(self) -> str:
        """The address in use, the embedded server's included (it is started if need be)."""
        return self.session.dsn

    @property
    def settings(self) -> Settings:
        """Everything that is configured, and where each value came from.

        >>> hw = Headway("postgresql://localhost/app", pool_size=4)
        >>> str(hw.settings["pool_size"].value), str(hw.settings["pool_size"].origin)
        ('4', 'code: pool_size')
        """
        return self.session.settings

    @property
    def retention(self) -> Retention:
        """How long finished jobs are kept, unless their task says otherwise."""
        return self.settings.retention

    @cached_property
    def controls(self) -> Controls:
        """Pauses and limits of queues, tasks and keys."""
        return Controls(self.session)

    @cached_property
    def queues(self) -> Queues:
        """Pause, resume and look at queues."""
        return Queues(self.session)

    @cached_property
    def schedules(self) -> Schedules:
        """Put, change and look at schedules."""
        return Schedules(self.session, self.get_task, lambda: self.settings.app.name or "")

    # -- definitions ------------------------------------------------------------------------------

    # The same overloads as TaskDecorator's, for the reasons given there.
    @overload
    def task(
        self, function: Callable[Concatenate[Unnamed, ...], Awaitable[R]], /
    ) -> Task[..., R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Unnamed, ...], R], /) -> Task[..., R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, *, batch: Batch, **options: Unpack[TaskOptions]) -> BatchDecorator: ...
    @overload
    def task(self, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Makes a function a task; with options (see `TaskOptions`) or without."""

        def define(function: Callable[..., Any]) -> Task[..., Any]:
            task = Task[..., Any](
                self.session, define_task(function, options, lambda: self.retention)
            )
            self._add(task.name, task, options.get("schedule"))
            return task

        return define if function is None else define(function)

    @overload
    def flow(self, name: str, **options: Unpack[FlowOptions]) -> Flow[None]: ...
    @overload
    def flow(self, name: str, *, state: type[S], **options: Unpack[FlowOptions]) -> Flow[S]: ...
    def flow(
        self, name: str, *, state: type[S] | None = None, **options: Unpack[FlowOptions]
    ) -> Flow[Any]:
        """A flow of this name; its steps are declared with `@flow.step`.

        Options hold for every step that does not say otherwise. `state` is a type (made without
        arguments) that the job carries along from step to step.
        """
        flow = Flow[Any](self.session, name, state, options, lambda: self.retention)
        self._add(name, flow, options.get("schedule"))
        return flow

    def _add(self, name: str, task: Task[..., Any] | Flow[Any], schedule: Scheduled | None) -> None:
        if name in self.tasks:
            raise ConfigError(
                f"there is a task or flow {name!r} already; give this one another name"
            )
        self._declared.add(task, name, schedule)
        self.tasks[name] = self.session.tasks[name] = task

    def get_task(self, name: str) -> Task[..., Any] | Flow[Any]:
        """The task or flow of this name; UnknownTask if the app has none."""
        if name not in self.tasks:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(f"no task {name!r} in this app; it knows {known}")
        return self.tasks[name]

    def job(self, job_id: UUID | str) -> Job[Any]:
        """A handle on any job, by its id. Does not look whether it exists."""
        try:
            return Job(self.session, UUID(str(job_id)), None)
        except ValueError:
            raise ConfigError(f"{job_id!r} is not a job id; ids are UUIDs") from None

    async def enqueue(self, task: str, /, **arguments: Any) -> Job[Any]:
        """Enqueues by name, for callers who have no task object; checked all the same."""
        return await self.get_task(task).enqueue(**arguments)

    def failures(self, since: datetime | Duration | None = None) -> AsyncGenerator[Failure, None]:
        """Jobs that fail, as they do: from the first look on, or from a moment (or so long ago) on.
        Each comes once; none is missed while the database cannot be reached.

        >>> async for failure in hw.failures():                         # doctest: +SKIP
        ...     print(failure.task, failure.error["message"])
        """
        check_since(since)
        return failures(self.session, since)

    async def retry_failed(
        self,
        *,
        task: str | None = None,
        step: str | None = None,
        error: str | None = None,
        since: datetime | Duration | None = None,
        limit: int | None = None,
    ) -> int:
        """Runs failed jobs again, each where it failed and with fresh attempts; how many.

        Those of `task`, at `step`, that failed within `since` (a duration, or a moment), and whose
        error, as "type: message", contains the regular expression `error`; the oldest `limit`.
        """
        which = Which(task=task, step=step, error=error, since=since, limit=limit)
        with bad_pattern_explained(error):
            client = await self.session.ready_client()
            return await client.play(retry_failed(self.session, which))

    def retry_failed_sync(
        self,
        *,
        task: str | None = None,
        step: str | None = None,
        error: str | None = None,
        since: datetime | Duration | None = None,
        limit: int | None = None,
    ) -> int:
        """As `retry_failed`."""
        which = Which(task=task, step=step, error=error, since=since, limit=limit)
        with bad_pattern_explained(error):
            return self.session.client.play_sync(retry_failed(self.session, which))

    # -- opening and closing ----------------------------------------------------------------------

    async def open(self) -> None:
        """Opens the pool and checks the schema; the first use does it too."""
        await self.session.open()

    async def close(self) -> None:
        """Closes everything that was opened."""
        await self.session.close()
        self.session.close_sync()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def close_sync(self) -> None:
        """Closes what sync calls opened."""
        self.session.close_sync()

    def __enter__(self) -> Self:
        self.session.client.open_sync()
        return self

    def __exit__(self, *error: object) -> None:
        self.close_sync()

    async def migrate(self, *, roles: bool = False) -> list[str]:
        """Creates or upgrades the schema and touches nothing else; the migrations it applied.

        With `roles` it also makes the roles `<schema>_producer`, `_worker`, `_reader` and `_operator`
        and grants them what they are for.
        """
        return await self.session.migrate(roles=roles)

    def migrate_sync(self, *, roles: bool = False) -> list[str]:
        """As `migrate`."""
        return self.session.migrate_sync(roles=roles)

    # -- workers ----------------------------------------------------------------------------------

    async def run_worker(
        self, *, signals: bool = True, **settings: Unpack[WorkerSettings]
    ) -> Report:
        """Runs a worker until SIGTERM or SIGINT (or, without `signals`, until cancelled).

        Settings are the fields of `WorkerOptions`; those left out are as configured.
        """
        return await self.worker(**settings).run(signals=signals)

    async def run_until_idle(self, **settings: Unpack[WorkerSettings]) -> Report:
        """Runs what is due and returns when nothing is left to run now; for tests and scripts."""
        return await self.worker(**settings).run_until_idle()

    def run_until_idle_sync(self, **settings: Unpack[WorkerSettings]) -> Report:
        """As `run_until_idle`, where no event loop runs."""

        async def main() -> Report:
            try:
                return await self.run_until_idle(**settings)
            finally:
                await self.session.close()

        return loop.run(main())

    async def drain_worker(self, worker: int) -> bool:
        """Asks a worker, by its id, to finish what it runs and end; false if no such worker is alive."""
        session = self.session
        client = await session.ready_client()
        return await client.run(fleet.drain(session.target, worker, session.clock.now()))

    def drain_worker_sync(self, worker: int) -> bool:
        """As `drain_worker`."""
        session = self.session
        return session.client.run_sync(fleet.drain(session.target, worker, session.clock.now()))

    def worker(self, **settings: Unpack[WorkerSettings]) -> Worker:
        """A worker that is not running yet; for those who start and stop it themselves."""
        return Worker(
            self.session.target,
            {
                definition.handler: definition
                for task in self.tasks.values()
                for definition in task.definitions()
            },
            self.settings.worker(settings),
            version=__version__,
            clock=self.session.clock,
            max_result=self.session.max_payload_bytes,
            overrides=self.dependency_overrides,
            prepare_child=self.session.prepare_child(),
            max_wait=optional_seconds(self.settings.health.max_wait),
            declared=Declared(
                self._declared.puts(self.session.max_payload_bytes),
                owner=self.settings.app.name or "",
                clean_up=self.settings.app.schedules,
                tasks=list(self.tasks),
            ),
        )
