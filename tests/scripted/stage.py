"""One real worker on a real database, with its wire and its time in the hands of a driver."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from headway import Context, Headway
from headway.engine.claiming.scan import ScanBudget
from headway.engine.health.observers import Observers
from headway.engine.maintenance import services
from headway.engine.maintenance.sweeps import Sweep, sweeps
from headway.engine.worker import Worker
from headway.store.connections.engine_connection import EngineConnection
from tests.scripted.timeline import Timeline
from tests.scripted.wire import SCRIPTED, Wire
from tests.support import Running, eventually

SLOTS = 4
_LEASE = "10m"
"""Longer than any outage in a history: whatever is lost is to be found by this worker itself."""
_POLL = "30s"
_BEAT = 201.0
"""Seconds after which a heartbeat, and a read of the claims, are due."""


def _sweeps(link: EngineConnection, lease: float) -> list[Sweep]:
    """Return the sweeps that a job's end may depend on: the others only take time."""
    return [sweep for sweep in sweeps(link, lease) if sweep.name in ("rescue", "stops")]


class Stage:
    """The worker, what its handlers did, and when nothing goes on by itself."""

    def __init__(self, hw: Headway, db: psycopg.Connection[Any], patch: pytest.MonkeyPatch) -> None:
        self.hw = hw
        self.db = db
        self.wire = Wire()
        self.timeline = Timeline(hw._session.clock)
        self.runs = Counter[tuple[str, str]]()
        """How often the handler of each job and step ran."""
        self.claims = Counter[tuple[str, int]]()
        """How often a handler ran for each job and claim number."""
        self.on_start: Callable[[str], Awaitable[None]] | None = None
        """Called with the id of each job whose handler starts."""
        self.on_end: Callable[[], object] | None = None
        """Called when a handler is about to end."""
        self._patch = patch
        self._running: Running | None = None

    @property
    def worker(self) -> Worker:
        assert self._running is not None
        return self._running.worker

    async def open(self) -> None:
        """Start the worker, which knows the tasks that the app has by now."""
        self._patch.setattr(Observers, "start", lambda *_: None)
        self._patch.setattr(services, "sweeps", _sweeps)
        # How long a scan took means nothing here, where it waits for the driver.
        self._patch.setattr(ScanBudget, "spent", lambda *_, **__: None)
        self.timeline.install(self._patch)
        self.wire.install(self._patch)
        options: dict[str, Any] = {"poll": _POLL, "poll_alone": _POLL, "listen": False}
        worker = self.hw.worker(lease=_LEASE, concurrency=SLOTS, grace="1s", **options)
        self._running = Running(worker)
        await eventually(lambda: worker.id)
        served = {service.name for service in worker._upkeep.health._services}
        assert served >= {*SCRIPTED}, (
            "the driver would not see the calls of a service it must script"
        )

    async def close(self) -> None:
        """Stop the worker, also in the middle of a history that went wrong."""
        if self._running is None:
            return
        self.wire.scripted = self.wire.away = False
        stopping = asyncio.create_task(self._running.stop())
        self.worker.stop()
        while not stopping.done():
            for message in [*self.wire.sent, *self.wire.held]:
                message.lose()
            self.timeline.advance(0.5)
            await asyncio.sleep(0.001)
        await stopping

    async def begin(self) -> None:
        """Bring the worker to the same moment before each history: everything has just been looked
        at, and nothing is due."""
        random.seed(0)
        self.wire.scripted = False
        self.runs.clear()
        self.claims.clear()
        self.on_start = self.on_end = None
        await self.quiet()
        self.timeline.advance(_BEAT)
        await self.quiet()

    async def quiet(self) -> None:
        """Return when nothing in this process goes on unless the driver does something."""
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        calm = 0
        while calm < 3:
            await (self.wire.done.wait() if self.wire.busy else asyncio.sleep(0))
            calm = 0 if ready or self.wire.busy else calm + 1

    async def handle(self, ctx: Context) -> None:
        """The body of every handler: it is noted, and ends when the driver decides. Meanwhile the worker
        beats, and looks whether the claim still holds."""
        job = str(ctx.job_id)
        claim = self.worker._running.executor.running[job].claim
        self.runs[job, ctx.step or ""] += 1
        self.claims[job, claim.number] += 1
        self.timeline.advance(0.2)
        self.worker._running.stops.hint(job)
        self.worker._upkeep.heartbeat.wake()
        if self.on_start is not None:
            await self.on_start(job)
        await self.wire.send("handler", (ctx.step or ctx.task,), None, _nothing)
        if self.on_end is not None:
            self.on_end()

    def look(self) -> None:
        """There may be something to claim or to admit, anywhere."""
        self.worker._job_loop.hint(None)
        if self.db.execute("select 1 from job where state = 'b' limit 1").fetchall():
            self.worker._upkeep.maintenance.admitter.hint()


async def _nothing() -> None:
    """The end of a handler is nothing to the server."""
