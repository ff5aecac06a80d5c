"""The world of a soak: a server, a proxy for each worker, and workers that are started again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.crash.proxy import Proxy
from tests.crash.server import OwnServer
from tests.fixtures.processes import WorkerProcess
from tests.soak.journal import PLACE
from tests.soak.ledger import Ledger

SCHEMA = "soak"
LEASE = 6.0
LONG_LEASE = 100.0
"""For one worker of a long soak: an outage may be longer than a minute and shorter than this."""

_TABLES = """
create table {schema}.effect (job_id uuid not null, step text not null);
create table {schema}.paid (id uuid primary key);
"""


@dataclass
class Slot:
    """One place in the fleet: a worker process, started again whenever it ends."""

    number: int
    proxy: Proxy | None
    """None: the worker reaches the server directly."""
    lease: float
    version: int = 0
    process: WorkerProcess | None = None
    reason: str = ""
    """How the soak has ended the process; empty if it has not."""
    paused: bool = False
    reserved: bool = False
    """A long fault has it to itself."""
    starts: int = 0

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else 0

    @property
    def queue(self) -> str:
        """The queue of pulses that only this worker serves."""
        return f"pulse-{self.number}"


class World:
    """Everything that runs. The faults act on it."""

    def __init__(self, place: Path, ledger: Ledger, *, long: bool) -> None:
        self.place = place
        self.ledger = ledger
        self.journal = place / "journal"
        self.server = OwnServer(place, max_connections="300", fsync="off")
        self.serving = asyncio.Lock()
        """Held while the server is down."""
        self.version = 0
        self.ending = False
        self.failed = False
        self._proxies: list[Proxy] = []
        self._long = long
        self.slots: list[Slot] = []
        self.recovery = 25.0 if long else 15.0
        """How long a worker may take to be back at work after a fault has ended. A connection that
        leads nowhere is noticed by a heartbeat: after the time between two and the time for an answer."""
        self.client: Proxy

    @property
    def dsn(self) -> str:
        """The way to the server that no proxy stands in."""
        return self.server.dsn

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The server, the proxies and the workers, for as long as the block lasts."""
        await asyncio.to_thread(lambda: self.server.create().start())
        try:
            self.client = self._proxy()
            self.slots = [Slot(0, None, LEASE), Slot(1, self._proxy(), LEASE)]
            self.slots.append(Slot(2, self._proxy(), LONG_LEASE if self._long else LEASE))
            await self._prepare()
            async with asyncio.TaskGroup() as group:
                keepers = [group.create_task(self._keep(slot)) for slot in self.slots]
                try:
                    while len(await self.rows("select from worker")) < len(self.slots):
                        await asyncio.sleep(0.05)  # tasks are declared when workers start
                    yield
                finally:
                    self.ending = True
                    for keeper in keepers:
                        keeper.cancel()
        finally:
            self._end()

    @asynccontextmanager
    async def connection(self, **options: Any) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection that no proxy stands in; a restart of the server ends it."""
        conn = await psycopg.AsyncConnection.connect(
            self.dsn, **{"autocommit": True, "application_name": "soak"} | options
        )
        try:
            await conn.execute(
                sql.SQL("set search_path = {}, public").format(sql.Identifier(SCHEMA))
            )
            if not conn.autocommit:
                await conn.commit()
            yield conn
        finally:
            await conn.close()

    async def rows(self, query: str, *values: Any) -> list[Any]:
        """Ask the server."""
        async with self.connection() as conn:
            return await (await conn.execute(query, values)).fetchall()

    async def live(self) -> int:
        """Return the number of live jobs that will end."""
        (row,) = await self.rows(
            "select count(*) from job where not id = any (%s)", list(self.ledger.unknown)
        )
        return int(row[0])

    def send(self, process: WorkerProcess, number: signal.Signals) -> None:
        """Signal a worker and its children."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    async def stop_workers(self) -> None:
        """Drain all workers and wait for their ends."""
        self.ending = True
        running = [slot for slot in self.slots if slot.process is not None]
        for slot in running:
            slot.reason = "end"
            with suppress(ProcessLookupError):
                os.kill(slot.pid, signal.SIGTERM)
        deadline = time.monotonic() + 60
        for slot in running:
            while slot.process is not None and slot.process.process.poll() is None:
                if time.monotonic() > deadline:
                    self.ledger.wrong.append(f"worker {slot.pid} did not drain within 60 s")
                    break
                await asyncio.sleep(0.05)
        for pid in [pid for pid, *_ in self.ledger.exits] + [slot.pid for slot in running]:
            with suppress(ProcessLookupError):
                while time.monotonic() < deadline:
                    os.killpg(pid, 0)
                    await asyncio.sleep(0.05)
                os.killpg(pid, signal.SIGKILL)
                self.ledger.wrong.append(f"worker {pid} has ended, and children of it have not")

    @property
    def targets(self) -> list[Slot]:
        """The slots that may be broken; never empty."""
        return [slot for slot in self.slots if not slot.reserved]

    def _proxy(self) -> Proxy:
        self._proxies.append(Proxy(self.dsn).__enter__())
        return self._proxies[-1]

    async def _prepare(self) -> None:
        """Make the schema, and the app of the producers, which reaches the server by a proxy."""
        os.environ |= {
            "HEADWAY_DATABASE_URL": self.client.dsn,
            "TEST_SCHEMA": SCHEMA,
            PLACE: str(self.journal),
        }
        from tests.soak.app import hw  # the environment says where its database is

        await hw.migrate()
        async with self.connection() as conn:
            await conn.execute(sql.SQL(_TABLES).format(schema=sql.Identifier(SCHEMA)))

    async def _keep(self, slot: Slot) -> None:
        """Start a worker when the one before has ended."""
        while not self.ending:
            self._start(slot)
            assert slot.process is not None
            process = slot.process.process
            while process.poll() is None:
                await asyncio.sleep(0.05)
            slot.process.wait()
            self.ledger.exits.append((slot.pid, process.returncode, slot.reason, time.time()))
            self.ledger.say(f"worker {slot.pid} ended: {process.returncode} {slot.reason}")
            await asyncio.sleep(random.random())

    def _start(self, slot: Slot) -> None:
        from tests.soak.app import QUEUES

        slot.reason, slot.paused, slot.version = "", False, max(slot.version, self.version - 1)
        slot.starts += 1
        options = [f"--lease={slot.lease}s", "--grace=5s", "--concurrency=40", "--task-processes=2"]
        if slot.number == 0:
            options.append("--poll=1s")
        for queue in (*QUEUES, slot.queue):
            options += ["-q", queue]
        slot.process = WorkerProcess(
            "tests.soak.app:hw", slot.proxy.dsn if slot.proxy else self.dsn, SCHEMA, *options,
            log=self.place / f"worker-{slot.number}-{slot.starts}.log",
            SOAK_VERSION=str(slot.version), PYTHONFAULTHANDLER="1",
        )  # fmt: skip
        self.ledger.say(f"worker {slot.pid} starts in slot {slot.number}, version {slot.version}")

    def _end(self) -> None:
        for slot in self.slots:
            if slot.process is not None and slot.process.process.poll() is None:
                slot.process.kill()
        for proxy in self._proxies:
            proxy.__exit__()
        self.server.stop(signal.SIGINT)
