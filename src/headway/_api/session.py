"""The session that an app's objects share: the database, the client, the clock and the listeners.

Tasks and handles hold the session rather than the app, so that imports point one way. Nothing is
opened before it is used.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from headway import embedded
from headway._api import apps
from headway._api.child_preparation import ChildPreparation, DeclaresSchedules, Loaded
from headway._api.ready_jobs import Arrivals, ThreadArrivals
from headway.core.clock import Clock
from headway.core.definition import Definition
from headway.core.hooks import Hooks
from headway.engine import logs
from headway.engine.notify.ready import ReadyListener
from headway.engine.notify.results import ResultListener
from headway.errors import ConfigError, UnknownTask
from headway.settings import layers
from headway.store import migrate, rights
from headway.store.connections.call_budget import OnRepeat
from headway.store.connections.caller_transactions import Making
from headway.store.connections.client import Client
from headway.store.connections.connect import Target, complete_dsn
from headway.store.connections.dsn import DatabasePlace, place_of, plain_dsn
from headway.store.connections.listen import Hearing, SyncListener
from headway.store.connections.per_loop import PerLoop
from headway.store.faults import DRIVER_ERRORS, translate
from headway.store.scripts import Script
from headway.store.statement import Statement

R = TypeVar("R")

log = logging.getLogger("headway.settings")

_OF_DATABASE = (
    "_arrivals",
    "_command_line",
    "_hearing",
    "_instead",
    "_results",
    "_server",
    "client",
    "clock",
    "max_payload_bytes",
    "schema",
    "settings",
    "target",
)
"""The attributes of a session that belong to one database."""


class Session:
    """One app's access to its database."""

    def __init__(self, code: Mapping[str, layers.Setting]) -> None:
        """`code` is what the app was made with."""
        self._code = code
        self.load_again: Callable[[], Loaded] | None = None
        """In a process of this app's worker: imports the app, and redirects it as it is here."""
        self.find_dsn: Callable[[], str] | None = None
        """Returns the address of the database, if it is not known when the app is made."""
        self.may_create = True
        """Whether an embedded server may be made, where there is none yet."""
        self.on_embedded: Callable[[DatabasePlace, Path], None] = self._log_embedded
        """Called with an embedded server's place and data, once, when it is begun to be used."""
        self._starting = threading.Lock()
        self.timeout: float | None = None
        """Seconds after which a call is given up; none: the client's default."""
        self.tasks: dict[str, DeclaresSchedules] = {}
        """The tasks and flows of the app, by name and by earlier names."""
        self.overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
        """Replacements for functions given to `Depends`."""
        self.hooks = Hooks()
        self.enter(Clock())

    def enter(self, clock: Clock, instead: apps.Instead | None = None, **attributes: Any) -> None:
        """Begin without a connection. `instead` returns settings that override those of the app.

        `attributes` are the `target` and the `client` of a test without a database.
        """
        self._command_line: dict[str, layers.Setting] = {}
        self._instead = instead
        self.clock = clock
        self._server: embedded.EmbeddedServer | None = None
        self._results: PerLoop[ResultListener] = PerLoop(
            ResultListener.stop, ResultListener.abandon
        )
        self._arrivals: PerLoop[ReadyListener] = PerLoop(ReadyListener.stop, ReadyListener.abandon)
        self._hearing = Hearing()
        self.__dict__.update(attributes)

    def leave(self) -> dict[str, Any]:
        """Forget the database, and what is open. `resume` takes it back. For tests (apps.py)."""
        return {name: self.__dict__.pop(name) for name in _OF_DATABASE if name in self.__dict__}

    def resume(self, left: dict[str, Any]) -> None:
        """Close what was opened since `leave`, on all event loops, and go on as before it."""
        self._results.drop_all()
        self._arrivals.drop_all()
        if "client" in self.__dict__:
            self.client.close_sync(loops=True)
        self.leave()
        self.__dict__.update(left)

    def definition(self, task: str, step: str) -> Definition:
        """Return the definition of a task at a step. Raise UnknownTask if the app has none."""
        for definition in self.tasks[task].definitions() if task in self.tasks else ():
            if definition.name == task and definition.step == step:
                return definition
        known = ", ".join(sorted(self.tasks)) or "none"
        wanted = f"step {step!r} of flow {task!r}" if step else f"task {task!r}"
        raise UnknownTask(f"no {wanted} in this app; it knows {known}")

    @cached_property
    def settings(self) -> layers.Settings:
        """The settings of this app. Files and the environment are read on first use."""
        settings = self.read_settings()
        for note in settings.notes:
            log.warning("%s", note)
        return settings

    def read_settings(self) -> layers.Settings:
        """Reads them anew; what is in use stays as it is."""
        code = self._code
        if self.find_dsn is not None:
            code = {**code, **layers.in_code({"database_url": self.find_dsn()})}
        settings = layers.load(code, self._command_line)
        if self._instead is not None:
            settings = layers.load(code, self._instead(settings))
        place = settings["database_url"]
        if place.value is not None:
            try:
                complete_dsn(place.value)
            except ConfigError as error:
                raise place.origin.refuse(place.value, f"cannot be: {error}") from None
        return settings

    @cached_property
    def schema(self) -> str:
        """Headway's schema in the database."""
        return self.settings.app.schema

    @cached_property
    def max_payload_bytes(self) -> int:
        """The largest input, and the largest result."""
        return self.settings.app.max_payload_bytes

    @property
    def dsn(self) -> str:
        """The address in use; starts the embedded server if no other was given."""
        if (dsn := self.settings.app.database_url) is not None:
            return plain_dsn(dsn)
        with self._starting:
            if self._server is None:
                self._server = self._start_embedded()
            return self._server.dsn

    def _start_embedded(self) -> embedded.EmbeddedServer:
        allowed, local = self.settings["embedded"], Path(self.settings.app.local)
        if not allowed.value:
            raise ConfigError(
                f"no database is named, and {allowed.origin} rules out an embedded one; "
                "set HEADWAY_DATABASE_URL or DATABASE_URL"
            )
        if not self.may_create and not embedded.exists(local):
            raise ConfigError(
                f"no database is named, and there is no embedded one in {local}; give --dsn, set "
                "HEADWAY_DATABASE_URL or DATABASE_URL, or start a worker, which makes one"
            )
        server = embedded.start(local)
        try:
            # A server of our own needs no one's leave to be set up.
            migrate.run_sync(server.dsn, self.schema)
        except BaseException:
            server.close()
            raise
        self.on_embedded(place_of(server.dsn, self.schema, embedded=True), server.data)
        return server

    def _log_embedded(self, place: DatabasePlace, data: Path) -> None:
        """Warn, unless somebody has asked for an embedded server."""
        asked_for = {self.settings[key].origin.layer for key in ("embedded", "local")} != {
            "default"
        }
        log.log(
            logging.INFO if asked_for else logging.WARNING,
            "no database is named: using %s, with its data in %s; set DATABASE_URL to use another",
            place,
            data,
        )

    @property
    def is_open(self) -> bool:
        """Whether it is known which database is used."""
        return "target" in self.__dict__

    @property
    def place(self) -> DatabasePlace:
        """The database and the schema in use, to show to people."""
        return place_of(self.target.dsn, self.schema, embedded=self._server is not None)

    @cached_property
    def target(self) -> Target:
        dsn, server = complete_dsn(self.dsn), self._server
        away = None if server is None else server.start_again
        return Target(dsn, self.schema, self.settings.app.notify, away)

    @cached_property
    def client(self) -> Client:
        client = Client(self.target, pool_size=self.settings.app.pool_size)
        client.timeout = self.timeout
        return client

    def redirect(self, *, dsn: str | None = None, schema: str | None = None) -> None:
        """Uses another database or schema than the app was made with; before anything is opened."""
        if dsn is None and schema is None:
            return
        if "target" in self.__dict__ or self._server is not None:
            raise ConfigError("the app is in use already; say where the database is before that")
        self._command_line |= layers.on_command_line({"--dsn": dsn, "--schema": schema})
        self._read_again()

    def release(self) -> None:
        """Close the connections of threads. The next use may find another database."""
        self.close_sync()
        self._read_again()

    def _read_again(self) -> None:
        for read in ("settings", "schema", "max_payload_bytes", "target", "client"):
            self.__dict__.pop(read, None)

    def prepare_child(self) -> ChildPreparation:
        """Return the preparation of this app's child processes, which import the app again.

        Raise ConfigError in such a child while it imports its main module: a script that starts a
        worker without asking whether it is the main module would start another one there.
        """
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise ConfigError(
                "this process was started by a worker, and importing the main module would start "
                'another worker in it; start workers under if __name__ == "__main__"'
            )
        return ChildPreparation(
            self.settings.directory, self.load_again, logs.in_use(), apps.redirection_for_child()
        )

    async def results(self, within: float | None = None) -> ResultListener:
        """Return who listens for the ends of jobs on this event loop, ready after `within` seconds."""
        if (results := self._results.get()) is None:
            results = ResultListener(self.target, self.target.done_channel, self._hearing)
            await self._results.put(results)
            results.start()
        await results.ready(within)
        return results

    @asynccontextmanager
    async def ends_of_jobs(self, within: float | None = None) -> AsyncGenerator[ResultListener]:
        """Yield a listener for the ends of jobs. It is shared by all who wait on this event loop."""
        yield await self.results(within)

    def ends_of_jobs_sync(self, within: float | None = None) -> SyncListener:
        """Return a listener for the ends of jobs, for one waiting thread."""
        return SyncListener(self.target, self.target.done_channel, self._hearing, within)

    @asynccontextmanager
    async def arrivals(self, queue: str) -> AsyncGenerator[Arrivals]:
        """Yield the news of a queue. All consumers of this event loop share a listener."""
        if (listener := self._arrivals.get()) is None:
            listener = ReadyListener(self.target, self.target.work_channel, self._hearing)
            await self._arrivals.put(listener)
            listener.start()
        await listener.ready()
        with listener.of(queue) as news:
            yield Arrivals(listener, news)

    @contextmanager
    def arrivals_sync(self, queue: str) -> Generator[ThreadArrivals]:
        """Yield the news of a queue, for one waiting thread."""
        with SyncListener(self.target, self.target.work_channel, self._hearing) as listener:
            yield ThreadArrivals(listener, queue)

    async def ready_client(self) -> Client:
        """The client; what may take a while before there is one does not hold up the loop."""
        if "client" not in self.__dict__:
            await asyncio.to_thread(lambda: self.client)
        return self.client

    def ready_client_sync(self) -> Client:
        """Return the client."""
        return self.client

    async def run(self, work: Statement[R] | Script[R], until: float | None = None) -> R:
        """Return the answer of a statement or a script, if need be by the moment `until`.

        The body of a script begins to run once the client is ready. So a script may use `target`, and a
        statement that needs it belongs into a script: `target` may start an embedded server.
        """
        client = await self.ready_client()
        script = _one(work) if isinstance(work, Statement) else work
        return await client.play(script, until)

    async def run_all(
        self,
        statements: Sequence[Statement[Any]],
        *,
        on_repeat: OnRepeat = (),
        until: float | None = None,
    ) -> list[Any]:
        """Return the answers of several statements, run in one transaction. See `Client.run_all`."""
        client = await self.ready_client()
        return await client.run_all(statements, on_repeat=on_repeat, until=until)

    async def run_in(self, conn: Any, make: Making) -> list[Any]:
        """Return the answers of statements in the caller's transaction. See `Client.run_in`."""
        client = await self.ready_client()
        return await client.run_in(conn, make)

    # -- sync: generated by scripts/sync from the async methods; do not edit --

    def run_sync(self, work: Statement[R] | Script[R], until: float | None = None) -> R:
        """Sync version of `run`.

        Return the answer of a statement or a script, if need be by the moment `until`.
        """
        client = self.ready_client_sync()
        script = _one(work) if isinstance(work, Statement) else work
        return client.play_sync(script, until)

    def run_all_sync(
        self,
        statements: Sequence[Statement[Any]],
        *,
        on_repeat: OnRepeat = (),
        until: float | None = None,
    ) -> list[Any]:
        """Sync version of `run_all`.

        Return the answers of several statements, run in one transaction. See `Client.run_all`.
        """
        client = self.ready_client_sync()
        return client.run_all_sync(statements, on_repeat=on_repeat, until=until)

    def run_in_sync(self, conn: Any, make: Making) -> list[Any]:
        """Sync version of `run_in`.

        Return the answers of statements in the caller's transaction. See `Client.run_in`.
        """
        client = self.ready_client_sync()
        return client.run_in_sync(conn, make)

    # -- end of the generated methods --

    async def open(self) -> None:
        """Opens the pool and checks the schema."""
        await (await self.ready_client()).open()

    def open_sync(self) -> None:
        """Open the pool for threads and check the schema."""
        self.client.open_sync()

    async def close(self) -> None:
        """Closes what this event loop opened."""
        await self._results.close()
        await self._arrivals.close()
        if "client" in self.__dict__:
            await self.client.close()

    def close_sync(self) -> None:
        """Closes what threads opened, and lets go of the embedded server."""
        if "client" in self.__dict__:
            self.client.close_sync()
        with self._starting:
            server, self._server = self._server, None
        if server is not None:
            server.close()
            self.__dict__.pop("client", None)
            self.__dict__.pop("target", None)

    async def migrate(self, *, roles: bool = False) -> list[str]:
        """Creates or upgrades the schema; the names of the migrations applied."""
        try:
            dsn = complete_dsn(await asyncio.to_thread(lambda: self.dsn))
            return await migrate.run(dsn, self.schema, roles=roles)
        except DRIVER_ERRORS as error:
            raise translate(error, rights.migrating(self.schema)) from error

    def migrate_sync(self, *, roles: bool = False) -> list[str]:
        """As `migrate`."""
        try:
            return migrate.run_sync(complete_dsn(self.dsn), self.schema, roles=roles)
        except DRIVER_ERRORS as error:
            raise translate(error, rights.migrating(self.schema)) from error


def _one(statement: Statement[R]) -> Script[R]:
    """Return a script of one statement."""
    answer: R = yield statement
    return answer
