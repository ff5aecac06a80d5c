"""Runs the workers of a test: until nothing is due, until nothing is left, or up to a moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from datetime import datetime
from typing import Any, TypeVar

from headway._api.session import Session
from headway.core.clock import Clock
from headway.core.duration import in_words, optional_seconds
from headway.engine import loop
from headway.engine.jobs.settler import WorkerReport
from headway.engine.maintenance.declarations import Declarations
from headway.engine.maintenance.sweeps import sweeps
from headway.engine.worker import Worker
from headway.errors import ConfigError
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statements import fleet, testing
from headway.testing.lookup import TestedApp, apps_with_tasks
from headway.testing.rigged import RiggedHandlers
from headway.version import __version__

R = TypeVar("R")

_MOST_MOVES = 1_000
_SETTINGS: dict[str, Any] = {"queues": {"*": 1}, "dedicated": {}, "grace": "1s", "health": None}
"""A worker of a test serves every queue."""


class Runs:
    """Runs the workers of all apps, one after the other. A crashed worker is replaced."""

    def __init__(self, clock: Clock, rigged: RiggedHandlers) -> None:
        self._clock = clock
        self._began_at = clock.read()
        self._rigged = rigged
        self._declared: set[int] = set()
        self._settled = Counter[str]()
        self._lost = 0

    def sync(self, run: Coroutine[Any, Any, R]) -> R:
        """Return the result of a run, on an event loop of its own."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return loop.run(run)
        run.close()
        raise ConfigError("an event loop runs here already; await the form without _sync")

    async def until_idle(self, within: float, settings: Mapping[str, Any]) -> WorkerReport:
        """Run what is due now."""
        return await self._guarded(self._until_idle(settings), within)

    async def drain(self, within: float, settings: Mapping[str, Any]) -> WorkerReport:
        """Run everything, and move the time to where the next job waits."""
        return await self._guarded(self._passing(None, settings), within)

    async def up_to(
        self, until: datetime, within: float, settings: Mapping[str, Any]
    ) -> WorkerReport:
        """Run everything that is due up to a moment, schedules too, and move the time there."""
        return await self._guarded(self._passing(until, settings), within)

    async def _guarded(self, run: Coroutine[Any, Any, None], within: float) -> WorkerReport:
        self._settled.clear()
        self._lost = 0
        limit = asyncio.timeout(within)
        try:
            async with limit:
                await run
        except TimeoutError:
            if limit.expired():
                raise AssertionError(
                    f"jobs still ran after {in_words(within)}: a handler waits for something that does "
                    "not come, or jobs make new jobs without end"
                ) from None
            raise
        finally:
            for app in apps_with_tasks():
                await app.session.close()
        return WorkerReport(dict(self._settled), self._lost)

    async def _passing(self, until: datetime | None, settings: Mapping[str, Any]) -> None:
        for _ in range(_MOST_MOVES):
            await self._until_idle(settings)
            moment = await self._next_moment(schedules=until is not None)
            if moment is None or (until is not None and moment > until):
                if until is not None:
                    self._clock.move_to(max(until, self._clock.read()))
                    await self._until_idle(settings)
                return
            self._clock.move_to(moment)
        raise AssertionError(
            f"the time was moved {_MOST_MOVES} times, up to {self._clock.read()}, and jobs still wait; "
            "if they make new jobs without end, use run_for or advance"
        )

    async def _next_moment(self, *, schedules: bool) -> datetime | None:
        now, found = self._clock.read(), list[datetime]()
        for session in _by_schema():
            connection = EngineConnection(session.target)
            try:
                statement = testing.next_moment(now, schedules=schedules)
                if (moment := await connection.run(statement)) is not None:
                    found.append(moment)
            finally:
                await connection.close()
        return min(found, default=None)

    async def _until_idle(self, settings: Mapping[str, Any]) -> None:
        apps = apps_with_tasks()
        if not apps:
            raise ConfigError(
                "no app of this process has tasks; import the module that defines them"
            )
        while True:
            settled = crashed = 0
            for app in apps:
                await self._prepare(app)
                report = await self._work(app, settings)
                settled += report.total
                crashed += self._rigged.crashed
                self._settled.update(report.settled)
                self._lost += report.lost
            if not crashed and (len(apps) == 1 or not settled):
                return

    async def _prepare(self, app: TestedApp) -> None:
        """Declare what the code says, as of the start of the test, and do what sweeps do by the time."""
        session = app.session
        connection = EngineConnection(session.target)
        try:
            if id(session) not in self._declared:
                self._declared.add(id(session))
                definitions = app.registry.definitions().values()
                declared = app.registry.declared()
                await Declarations(
                    connection, Clock(self._began_at), definitions, declared
                ).declare()
            for sweep in sweeps(connection, 1.0):
                while await sweep.run(self._clock.now()):
                    pass
        finally:
            await connection.close()

    async def _work(self, app: TestedApp, settings: Mapping[str, Any]) -> WorkerReport:
        session, registry = app
        definitions = registry.definitions()
        worker = Worker(
            session.target,
            {handler: self._rigged.rig(one) for handler, one in definitions.items()},
            session.settings.worker({**_SETTINGS, **settings}),
            version=__version__,
            clock=self._clock,
            max_result=session.max_payload_bytes,
            overrides=session.overrides,
            prepare_child=session.prepare_child(),
            max_wait=optional_seconds(session.settings.health.max_wait),
            declared=registry.declared(),
            isolate=False,
        )
        self._rigged.begin(worker)
        report = await worker.run_until_idle()
        if self._rigged.crashed:
            await _bury(session, worker.id, self._clock)
        return report


async def _bury(session: Session, worker: int, clock: Clock) -> None:
    """Let the lease of a crashed worker end now. Nobody waits for it in a test."""
    connection = EngineConnection(session.target)
    try:
        await connection.run(fleet.retire(worker, clock.now(), survived=False))
    finally:
        await connection.close()


def _by_schema() -> list[Session]:
    """Return a session for each schema in use."""
    return list({app.session.schema: app.session for app in apps_with_tasks()}.values())
