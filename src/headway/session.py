"""What an app's objects share: where the database is, the client, the clock, who listens for results.

Tasks and handles hold the session rather than the app, so that imports point one way. Nothing is
opened before it is used.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol
from weakref import WeakKeyDictionary

from headway import embedded
from headway.core.clock import Clock
from headway.core.definition import Definition
from headway.engine.notify.ready import Arrivals
from headway.engine.notify.results import Results
from headway.errors import ConfigError, UnknownTask
from headway.settings import files, layers
from headway.store import migrate
from headway.store.client import Client
from headway.store.connect import Target, complete_dsn
from headway.store.faults import DRIVER_ERRORS, translate
from headway.store.listen import SyncListener

log = logging.getLogger("headway.settings")


class Declared(Protocol):
    """A task or a flow."""

    def definitions(self) -> list[Definition]: ...


class Session:
    """One app's access to its database."""

    def __init__(self, code: Mapping[str, layers.Setting]) -> None:
        """`code` is what the app was made with."""
        self._code = code
        self._command_line: dict[str, layers.Setting] = {}
        self.load_again: Callable[[], object] | None = None
        """In a process of this app's worker: imports the app, and redirects it as it is here."""
        self._starting = threading.Lock()
        self._server: embedded.EmbeddedServer | None = None
        self._results: WeakKeyDictionary[asyncio.AbstractEventLoop, Results] = WeakKeyDictionary()
        self._arrivals: WeakKeyDictionary[asyncio.AbstractEventLoop, Arrivals] = WeakKeyDictionary()
        self.tasks: dict[str, Declared] = {}
        """The tasks and flows of the app, by name."""
        self.clock = Clock()

    def definition(self, task: str, step: str) -> Definition:
        """What runs a job of this task that stands at this step; UnknownTask if nothing here does."""
        for definition in self.tasks[task].definitions() if task in self.tasks else ():
            if definition.step == step:
                return definition
        known = ", ".join(sorted(self.tasks)) or "none"
        wanted = f"step {step!r} of flow {task!r}" if step else f"task {task!r}"
        raise UnknownTask(f"no {wanted} in this app; it knows {known}")

    @cached_property
    def settings(self) -> layers.Settings:
        """What holds for this app; files and the environment are read on first use."""
        settings = self.read_settings()
        for note in settings.notes:
            log.warning("%s", note)
        return settings

    def read_settings(self) -> layers.Settings:
        """Reads them anew; what is in use stays as it is."""
        settings = layers.load(self._code, self._command_line)
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
            return dsn
        with self._starting:
            if self._server is None:
                self._server = embedded.start(Path(self.settings.app.local))
                # A server of our own needs no one's leave to be set up.
                migrate.run_sync(self._server.dsn, self.schema)
            return self._server.dsn

    @cached_property
    def target(self) -> Target:
        return Target(complete_dsn(self.dsn), self.schema, self.settings.app.notify)

    @cached_property
    def client(self) -> Client:
        return Client(self.target, pool_size=self.settings.app.pool_size)

    def redirect(self, *, dsn: str | None = None, schema: str | None = None) -> None:
        """Uses another database or schema than the app was made with; before anything is opened."""
        if "target" in self.__dict__ or self._server is not None:
            raise ConfigError("the app is in use already; say where the database is before that")
        self._command_line |= layers.on_command_line({"--dsn": dsn, "--schema": schema})
        for read in ("settings", "schema", "max_payload_bytes"):
            self.__dict__.pop(read, None)

    def prepare_child(self) -> Callable[[], None]:
        """For a process of this app's worker, which imports the app anew: makes it find what it did
        here. It can be sent there."""
        return partial(_prepare, self.settings.directory, self.load_again)

    async def results(self) -> Results:
        """Who listens for the ends of jobs on this event loop."""
        loop = asyncio.get_running_loop()
        if (results := self._results.get(loop)) is None:
            results = self._results[loop] = Results(self.target, self.target.done_channel)
            results.start()
        await results.ready()
        return results

    def ear(self) -> SyncListener:
        """The same for one waiting thread."""
        return SyncListener(self.target, self.target.done_channel)

    async def arrivals(self) -> Arrivals:
        """Who listens for jobs that become ready, on this event loop."""
        loop = asyncio.get_running_loop()
        if (arrivals := self._arrivals.get(loop)) is None:
            arrivals = self._arrivals[loop] = Arrivals(self.target, self.target.work_channel)
            arrivals.start()
        await arrivals.ready()
        return arrivals

    def arrivals_sync(self) -> SyncListener:
        """The same for one waiting thread."""
        return SyncListener(self.target, self.target.work_channel)

    async def ready_client(self) -> Client:
        """The client; what may take a while before there is one does not hold up the loop."""
        if "client" not in self.__dict__:
            await asyncio.to_thread(lambda: self.client)
        return self.client

    async def open(self) -> None:
        """Opens the pool and checks the schema."""
        await (await self.ready_client()).open()

    async def close(self) -> None:
        """Closes what this event loop opened."""
        loop = asyncio.get_running_loop()
        for ear in (self._results.pop(loop, None), self._arrivals.pop(loop, None)):
            if ear is not None:
                await ear.stop()
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
            raise translate(error) from error

    def migrate_sync(self, *, roles: bool = False) -> list[str]:
        """As `migrate`."""
        try:
            return migrate.run_sync(complete_dsn(self.dsn), self.schema, roles=roles)
        except DRIVER_ERRORS as error:
            raise translate(error) from error


def _prepare(directory: Path | None, load_again: Callable[[], object] | None) -> None:
    files.look_from(directory)
    if load_again is not None:
        load_again()
