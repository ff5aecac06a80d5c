"""`Headway`: the object that an application holds. It composes the other public objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload
from uuid import UUID

from headway._api import apps
from headway._api.call import Call, check_calls, send, send_sync
from headway._api.checking import check
from headway._api.job_filters import job_id_of
from headway._api.options import FlowOptions, TaskOptions, define_task
from headway._api.registry import Registry
from headway._api.session import Session
from headway._api.workers import new_worker
from headway.controls import Controls
from headway.core.batch import Batch
from headway.core.check import CheckReport
from headway.core.config import CleanUp, Retention, WorkerSettings
from headway.core.context import Context
from headway.core.duration import Duration
from headway.core.failure import Failure
from headway.core.info import ServerInfo
from headway.engine import loop
from headway.engine.jobs.settler import WorkerReport
from headway.engine.worker import Worker
from headway.failures import check_since, failures, failures_sync
from headway.flow import Flow
from headway.group import Group
from headway.hooks import AnyEnqueueMiddleware, AnyMiddleware, EventHooks
from headway.job import Job
from headway.jobs import Jobs
from headway.pull.job import PulledJob
from headway.pull.stream import Pull
from headway.queues import Queues
from headway.schedules import Schedules
from headway.settings.layers import Settings, of_app
from headway.store import migrate
from headway.store.connections.dsn import DatabasePlace
from headway.store.statements import inspect
from headway.task import BatchDecorator, Task, TaskDecorator, Unnamed
from headway.workers import Workers

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Headway:
    """The tasks of an application, and the database with their jobs.

    >>> hw = Headway("postgresql://localhost/app")
    >>> @hw.task
    ... async def add(a: int, b: int) -> int:
    ...     return a + b

    Without a DSN the app uses $HEADWAY_DATABASE_URL, else $DATABASE_URL, else headway.toml, else an
    embedded PostgreSQL in ./.headway. Options that are left out come from the configuration (`settings`).
    The app opens no connection and reads no file before its first use.
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
        """Make an app.

        - `schema`: Headway's schema in the database. `notify`: False avoids NOTIFY; workers then poll.
        - `retention`: how long finished jobs are kept. `pool_size`: connections for callers.
        - `max_payload_bytes`: the largest input or result. `worker`: options of every worker of the app.
        - `local`: the directory of the embedded server. `embedded`: False requires a named database.
        - `name`: the app, as the owner of schedules. `schedules`: what happens to undeclared ones.
        """
        self._session = Session(
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
        self._registry = Registry(self._session)
        apps.made(self, self._session, self._registry)

    @property
    def dependency_overrides(self) -> apps.Overrides:
        """For tests: which function to call in place of one given to `Depends`."""
        return self._session.overrides

    @dependency_overrides.setter
    def dependency_overrides(self, overrides: apps.Overrides) -> None:
        self._session.overrides = overrides

    @property
    def dsn(self) -> str:
        """The address in use. An embedded server is started for it if need be."""
        return self._session.dsn

    @property
    def settings(self) -> Settings:
        """Every setting, and where its value comes from.

        >>> hw = Headway("postgresql://localhost/app", pool_size=4)
        >>> str(hw.settings["pool_size"].value), str(hw.settings["pool_size"].origin)
        ('4', 'code: pool_size')
        """
        return self._session.settings

    @property
    def retention(self) -> Retention:
        """How long finished jobs are kept, unless their task has `keep`."""
        return self.settings.retention

    @property
    def schema(self) -> str:
        """The name of Headway's schema in the database."""
        return self._session.schema

    @property
    def schema_version(self) -> int:
        """The version of the schema that this library needs, and that `migrate` creates."""
        return migrate.newest()

    @property
    def place(self) -> DatabasePlace:
        """The database and the schema in use, without a password, to show to people."""
        return self._session.place

    @cached_property
    def jobs(self) -> Jobs:
        """Find, count, explain and retry jobs."""
        return Jobs(self._session)

    @cached_property
    def workers(self) -> Workers:
        """List and drain workers."""
        return Workers(self._session)

    @cached_property
    def controls(self) -> Controls:
        """Pauses and limits of queues, tasks and keys."""
        return Controls(self._session)

    @cached_property
    def queues(self) -> Queues:
        """List, pause, limit, purge, move and drain queues."""
        return Queues(self._session)

    @cached_property
    def schedules(self) -> Schedules:
        """Create, change and list schedules."""
        return Schedules(self._session, self.get_task, lambda: self.settings.app.name or "")

    # -- definitions; overloads as those of TaskDecorator ------------------------------------------

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
        """Make a function a task, with options or without.

        - `name`: another name than that of the function.
        - `queue`, `priority` (higher runs first), `delay` before a job may run.
        - `retry`: a `Retry`, or a number of attempts. `timeout`: how long an attempt may take.
        - `ttl`: how long a job may wait before it expires. `keep`: how long a success is kept.
        - `executor`: "async", "thread" or "process". `slots`: how many run at once in one worker.
        - `stop_grace`: how long a plain function may take to stop.
        - `transaction`: run in a transaction that commits with the success of the attempt.
        - `limit`: how many run at once, and how many start in a time, fleet-wide or by key.
        - `concurrency_key`: run jobs of one key in order, or share a key between tasks.
        - `unique`: do not make a second job of the same key. `schedule`: when to make jobs.
        - `dead_letter`: a queue for failed jobs. `on_failure`: a task to call with the failure.
        - `batch`: a `Batch`; the function then takes a list of inputs.
        - `aliases`: earlier names of parameters, with those of today. `former_names`: of the task.
        """

        def define(function: Callable[..., Any]) -> Task[..., Any]:
            found = define_task(function, options, lambda: self.retention, self._session.hooks)
            task = Task[..., Any](self._session, found)
            self._registry.add(task.name, task, options.get("schedule"))
            return task

        return define if function is None else define(function)

    @overload
    def flow(self, name: str, **options: Unpack[FlowOptions]) -> Flow[None]: ...
    @overload
    def flow(self, name: str, *, state: type[S], **options: Unpack[FlowOptions]) -> Flow[S]: ...
    def flow(
        self, name: str, *, state: type[S] | None = None, **options: Unpack[FlowOptions]
    ) -> Flow[Any]:
        """Return a new flow of this name. `@flow.step` declares its steps.

        - `state`: a type that can be made without arguments. The job carries one from step to step.
        - `queue`, `priority`, `retry`, `timeout`, `transaction`, `concurrency_key`: of its steps.
        - `ttl`, `keep`, `unique`, `schedule`, `dead_letter`, `on_failure`, `former_names`: as of a task.
        """
        flow = Flow[Any](self._session, name, state, options, lambda: self.retention)
        self._registry.add(name, flow, options.get("schedule"))
        return flow

    def middleware(self, function: AnyMiddleware, /) -> AnyMiddleware:
        """Call a function around attempts: a plain one around plain functions only."""
        return self._session.hooks.add_middleware(function)

    def enqueue_middleware(self, function: AnyEnqueueMiddleware, /) -> AnyEnqueueMiddleware:
        """Call a generator function around each enqueue. The first is the outermost."""
        return self._session.hooks.add_enqueue_middleware(function)

    @cached_property
    def on(self) -> EventHooks:
        """Call a function at an event: `hw.on("failed", notify)`, or as a decorator."""
        return EventHooks(self._session.hooks)

    @property
    def tasks(self) -> dict[str, Task[..., Any] | Flow[Any]]:
        """The tasks and flows of the app, by name."""
        return self._registry.tasks

    def get_task(self, name: str) -> Task[..., Any] | Flow[Any]:
        """Return the task or flow of this name. Raise UnknownTask if the app has none."""
        return self._registry.get(name)

    def job(self, job_id: UUID | str) -> Job[Any]:
        """Return a handle on a job by its id. It does not check that the job exists."""
        return Job(self._session, job_id_of(job_id), None)

    async def enqueue(self, task: str, /, **arguments: Any) -> Job[Any]:
        """Enqueue a task of this app by its name. The arguments are checked."""
        return await self.get_task(task).enqueue(**arguments)

    async def enqueue_many(self, calls: Iterable[Call[Any]], *, conn: Any = None) -> list[Job[Any]]:
        """Enqueue calls of several tasks, all or none. Return their handles in order.

        `conn` is the connection in whose transaction the jobs are made.

        >>> await hw.enqueue_many([welcome.call(user_id=1), report.call()])     # doctest: +SKIP
        """
        return await send(self._session, check_calls(calls), conn)

    def group(self, calls: Iterable[Call[Any]], *, conn: Any = None) -> Group:
        """Return calls that get a follow-up, which runs once when all have ended. `then` enqueues them.

        >>> await hw.group([resize.call(n) for n in range(9)]).then(report)     # doctest: +SKIP
        """
        return Group(self._session, calls, conn)

    async def check(
        self, *, queues: Sequence[str] | None = None, limit: int = 100_000
    ) -> CheckReport:
        """Try unfinished jobs and schedules against this code. Return those that would not run.

        It changes nothing. `queues` leaves out other queues. It reads the oldest jobs, up to `limit`.
        """
        return await self._session.run(check(self._session, self._registry, queues, limit))

    def failures(self, since: datetime | Duration | None = None) -> AsyncGenerator[Failure, None]:
        """Yield jobs that fail, each once: from now on, or from `since` on.

        `since` is a moment, or a duration before now. It misses none while the database is unreachable.

        >>> async for failure in hw.failures(): ...                     # doctest: +SKIP
        """
        check_since(since)
        return failures(self._session, since)

    def pull(
        self,
        queue: str,
        *,
        lease: Duration = "30s",
        count: int = 1,
        tasks: Sequence[str] | None = None,
    ) -> AsyncGenerator[PulledJob, None]:
        """Yield jobs of a queue, for ever and as they arrive, to a consumer that is not a worker.

        `tasks` are the tasks, or `flow/step`, to claim; without it all. `count` jobs are claimed at a
        time, for `lease`.

        >>> async for job in hw.pull("ext", lease="30s"):               # doctest: +SKIP
        ...     async with job:
        ...         await work(job.input)
        """
        wanted = Pull(queue=queue, lease=lease, count=count, tasks=tasks)
        return wanted.jobs(self._session)

    # -- opening and closing ----------------------------------------------------------------------

    async def open(self) -> None:
        """Open the pool and check the schema. The first use does the same."""
        await self._session.open()

    async def close(self) -> None:
        """Close all connections of this event loop and of threads."""
        await self._session.close()
        self._session.close_sync()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def close_sync(self) -> None:
        """Close the connections of threads."""
        self._session.close_sync()

    async def migrate(self, *, roles: bool = False) -> list[str]:
        """Create or upgrade the schema, and nothing else. Return the names of the applied migrations.

        `roles` also creates the roles `<schema>_producer`, `_worker`, `_reader` and `_operator` and
        grants them their rights.
        """
        return await self._session.migrate(roles=roles)

    def migration_sql(self, *, roles: bool = False) -> str:
        """Return the SQL that creates the schema in a database without it, and run nothing."""
        return migrate.script(self.schema, roles=roles)

    async def server_info(self) -> ServerInfo:
        """Return the version and the clock of the PostgreSQL server."""
        return await self._session.run(inspect.server())

    # -- sync: generated by scripts/sync from the async methods; do not edit --

    def enqueue_sync(self, task: str, /, **arguments: Any) -> Job[Any]:
        """Sync version of `enqueue`.

        Enqueue a task of this app by its name. The arguments are checked.
        """
        return self.get_task(task).enqueue_sync(**arguments)

    def enqueue_many_sync(self, calls: Iterable[Call[Any]], *, conn: Any = None) -> list[Job[Any]]:
        """Sync version of `enqueue_many`.

        Enqueue calls of several tasks, all or none. Return their handles in order.
        """
        return send_sync(self._session, check_calls(calls), conn)

    def check_sync(
        self, *, queues: Sequence[str] | None = None, limit: int = 100_000
    ) -> CheckReport:
        """Sync version of `check`.

        Try unfinished jobs and schedules against this code. Return those that would not run.
        """
        return self._session.run_sync(check(self._session, self._registry, queues, limit))

    def failures_sync(
        self, since: datetime | Duration | None = None
    ) -> Generator[Failure, None, None]:
        """Sync version of `failures`.

        Yield jobs that fail, each once: from now on, or from `since` on.
        """
        check_since(since)
        return failures_sync(self._session, since)

    def pull_sync(
        self,
        queue: str,
        *,
        lease: Duration = "30s",
        count: int = 1,
        tasks: Sequence[str] | None = None,
    ) -> Generator[PulledJob, None, None]:
        """Sync version of `pull`.

        Yield jobs of a queue, for ever and as they arrive, to a consumer that is not a worker.
        """
        wanted = Pull(queue=queue, lease=lease, count=count, tasks=tasks)
        return wanted.jobs_sync(self._session)

    def open_sync(self) -> None:
        """Sync version of `open`.

        Open the pool and check the schema. The first use does the same.
        """
        self._session.open_sync()

    def __enter__(self) -> Self:
        self.open_sync()
        return self

    def __exit__(self, *error: object) -> None:
        self.close_sync()

    def migrate_sync(self, *, roles: bool = False) -> list[str]:
        """Sync version of `migrate`.

        Create or upgrade the schema, and nothing else. Return the names of the applied
        migrations.
        """
        return self._session.migrate_sync(roles=roles)

    def server_info_sync(self) -> ServerInfo:
        """Sync version of `server_info`.

        Return the version and the clock of the PostgreSQL server.
        """
        return self._session.run_sync(inspect.server())

    # -- end of the generated methods --

    # -- workers ----------------------------------------------------------------------------------

    async def run_worker(
        self, *, signals: bool = False, **settings: Unpack[WorkerSettings]
    ) -> WorkerReport:
        """Run a worker until it is cancelled, or with `signals` until SIGTERM or SIGINT.

        Both drain: the worker claims nothing more, gives unstarted jobs back, and lets running ones
        finish within `grace`. A second cancellation or signal stops them at once and gives them back.
        `signals` takes these signals from the program. Settings are the fields of `WorkerOptions`; those
        that are left out come from the configuration.
        """
        return await self.worker(**settings).run(signals=signals)

    async def run_until_idle(self, **settings: Unpack[WorkerSettings]) -> WorkerReport:
        """Run the jobs that are due and return when none is left; for tests and scripts."""
        return await self.worker(**settings).run_until_idle()

    def run_until_idle_sync(self, **settings: Unpack[WorkerSettings]) -> WorkerReport:
        """Sync version of `run_until_idle`. It runs an event loop of its own."""

        async def main() -> WorkerReport:
            try:
                return await self.run_until_idle(**settings)
            finally:
                await self._session.close()

        return loop.run(main())

    def worker(self, **settings: Unpack[WorkerSettings]) -> Worker:
        """Return a worker that does not run yet, to start and stop by hand."""
        return new_worker(self._session, self._registry, settings)


def session_of(hw: Headway) -> Session:
    """Return the session of an app, for the command line and other parts of this package."""
    return hw._session  # pyright: ignore[reportPrivateUsage]
