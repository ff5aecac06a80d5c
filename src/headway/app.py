"""`Headway`: the object an application holds. It composes; the work is done elsewhere."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload
from uuid import UUID

from headway.core.config import (
    DEFAULT_QUEUE,
    DEFAULT_SCHEMA,
    MAX_PAYLOAD_BYTES,
    Retention,
    WorkerOptions,
    WorkerSettings,
)
from headway.core.context import Context
from headway.core.definition import Definition, ExecutorKind
from headway.core.duration import Duration
from headway.core.retry import Retry
from headway.engine import loop
from headway.engine.worker import Report, Worker
from headway.errors import ConfigError, UnknownTask
from headway.handle import Job
from headway.queues import Queues
from headway.session import Session
from headway.task import Task, TaskDecorator, Unnamed
from headway.version import __version__

P = ParamSpec("P")
R = TypeVar("R")


class Headway:
    """Tasks, and the database their jobs live in.

    >>> hw = Headway("postgresql://localhost/app")
    >>> @hw.task
    ... async def add(a: int, b: int) -> int:
    ...     return a + b

    Without a DSN it is $HEADWAY_DATABASE_URL, else $DATABASE_URL, else an embedded PostgreSQL kept
    in ./.headway. Nothing is opened before it is used.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        notify: bool = True,
        retention: Retention | None = None,
        pool_size: int = 10,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        local: str | Path = ".headway",
    ) -> None:
        """`notify=False` leaves LISTEN/NOTIFY alone: no lock in your commits, workers poll."""
        self.session = Session(
            dsn,
            schema=schema,
            notify=notify,
            pool_size=pool_size,
            max_payload_bytes=max_payload_bytes,
            local=Path(local),
        )
        self.retention = retention or Retention()
        self.tasks: dict[str, Task[..., Any]] = {}
        self.dependency_overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
        """For tests: what to call instead of a function given to `Depends`."""

    @property
    def dsn(self) -> str:
        """The address in use, the embedded server's included (it is started if need be)."""
        return self.session.dsn

    @cached_property
    def queues(self) -> Queues:
        """Pause, resume and look at queues."""
        return Queues(self.session)

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
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        ttl: Duration | None = None,
        executor: ExecutorKind | None = None,
        slots: int | None = None,
    ) -> TaskDecorator: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        ttl: Duration | None = None,
        executor: ExecutorKind | None = None,
        slots: int | None = None,
    ) -> Any:
        """Makes a function a task; with options or without.

        `executor` is "async" for coroutine functions and "thread" for plain ones; "process" runs a
        plain one in a process that can be killed. `slots` is how many may run at once in one worker;
        `ttl` how long a job may wait before it expires.
        """

        def define(function: Callable[..., Any]) -> Task[..., Any]:
            definition = Definition(
                name=name or function.__name__,
                function=function,
                queue=queue,
                priority=priority,
                retry=retry or Retry(),
                timeout=timeout,
                ttl=ttl,
                executor=_executor(function, executor),
                slots=slots,
            )
            if definition.name in self.tasks:
                raise ConfigError(
                    f"there is a task {definition.name!r} already "
                    f"({self.tasks[definition.name].__module__}); give this one another name="
                )
            task = self.tasks[definition.name] = Task[..., Any](self.session, definition)
            return task

        return define if function is None else define(function)

    def get_task(self, name: str) -> Task[..., Any]:
        """The task of this name; UnknownTask if the app has none."""
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

    async def migrate(self) -> list[str]:
        """Creates or upgrades the schema and touches nothing else; the migrations it applied."""
        return await self.session.migrate()

    def migrate_sync(self) -> list[str]:
        """As `migrate`."""
        return self.session.migrate_sync()

    # -- workers ----------------------------------------------------------------------------------

    async def run_worker(
        self, *, signals: bool = True, **settings: Unpack[WorkerSettings]
    ) -> Report:
        """Runs a worker until SIGTERM or SIGINT (or, without `signals`, until cancelled).

        Settings are the fields of `WorkerOptions`.
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

    def worker(self, **settings: Unpack[WorkerSettings]) -> Worker:
        """A worker that is not running yet; for those who start and stop it themselves."""
        return Worker(
            self.session.target,
            {name: task.definition for name, task in self.tasks.items()},
            WorkerOptions(**settings),
            version=__version__,
            clock=self.session.clock,
            keep=self.retention,
            max_result=self.session.max_payload_bytes,
            overrides=self.dependency_overrides,
        )


_KINDS = {"async": "a coroutine", "thread": "a plain"}


def _executor(function: Callable[..., Any], wanted: ExecutorKind | None) -> ExecutorKind:
    natural: ExecutorKind = "async" if inspect.iscoroutinefunction(function) else "thread"
    if wanted is None or wanted == natural:
        return natural
    if natural == "async" or wanted == "async":
        raise ConfigError(
            f"{function.__qualname__} is {_KINDS[natural]} function "
            f'and cannot run with executor="{wanted}"'
        )
    return wanted
