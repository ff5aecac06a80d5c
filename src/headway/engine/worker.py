"""One worker process: starts its services, follows its lease, drains and stops.

notifications ──► job loop ◄──verdicts── executor ──► handlers
                   │  │ claims ────────────►│
                   │  └──freed keys──► key admission
heartbeat ──lease──► worker ──leader or not──► maintenance: sweeps, promotes, admits, fires, counts

parts.py makes the parts and connects them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

from headway.core.clock import Clock, wall
from headway.core.config import WorkerOptions
from headway.core.definition import Definition
from headway.core.duration import seconds
from headway.core.hooks import Hooks, WorkerEvent, WorkerEventName
from headway.engine import logs
from headway.engine.claiming.fair_share import EVERY
from headway.engine.idle import IdleWatch
from headway.engine.jobs.settler import WorkerReport
from headway.engine.keys.admitting import ParallelAdmitter
from headway.engine.maintenance.declarations import DeclaredByCode
from headway.engine.notify.hints import Hints
from headway.engine.notify.work import WorkListener
from headway.engine.parts import (
    WorkerSpec,
    make_claiming,
    make_job_loop,
    make_running,
    make_upkeep,
)
from headway.engine.running.child import Prepare
from headway.engine.running.invoke import Overrides
from headway.engine.service import LONGEST_PAUSE, Service, log
from headway.store.connections.connect import Target
from headway.store.connections.dsn import place_of
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statement import Statement
from headway.store.statements import fleet, jobs

_SETTLE_AFTER_GRACE = 10.0
_ANSWER_AT_CLOSE = 5.0


class Worker:
    """Serves queues until `stop`."""

    def __init__(
        self,
        target: Target,
        definitions: Mapping[str, Definition],
        options: WorkerOptions,
        *,
        version: str,
        clock: Clock,
        max_result: int,
        overrides: Overrides,
        prepare_child: Prepare,
        max_wait: float | None = None,
        declared: DeclaredByCode | None = None,
        hooks: Hooks | None = None,
        isolate: bool = True,
    ) -> None:
        """See `WorkerSpec`."""
        self._spec = spec = WorkerSpec(
            target=target.named(f"headway worker {os.getpid()}"),
            definitions=definitions,
            options=options,
            version=version,
            clock=clock,
            max_result=max_result,
            overrides=overrides,
            prepare_child=prepare_child,
            max_wait=max_wait,
            declared=declared or DeclaredByCode(),
            hooks=hooks or Hooks(),
            isolate=isolate,
        )
        spec.check()
        self._connection = EngineConnection(spec.target)
        """For everything but claiming, settling, admitting and the lease."""
        self._claiming = make_claiming(spec)
        self._running = make_running(spec, self._claiming, self._connection)
        self._job_loop = make_job_loop(spec, self._claiming, self._running)
        self._upkeep = make_upkeep(
            spec, self._claiming, self._running, self._job_loop, self._connection, owner=self
        )
        self.drained_remotely = False
        """Somebody else asked it to drain, through the database."""
        self._announced_id = 0
        """The id of which the log last said that it is registered."""
        self._listener: WorkListener | None = None
        self._idle_watch: IdleWatch | None = None
        self._stop = asyncio.Event()
        self._crashed = False

    @property
    def id(self) -> int:
        return self._claiming.registration.worker_id

    @property
    def report(self) -> WorkerReport:
        return self._claiming.settler.report

    def stop(self) -> None:
        """Begin to drain. `run` returns when that is done. A second call stops all jobs at once."""
        if self._stop.is_set():
            self._running.executor.stop_all("shutdown")
        self._stop.set()

    def drain(self) -> None:
        """Begin to drain, as the database asks. More calls change nothing."""
        if not self._stop.is_set():
            log.info("worker %d was asked to drain", self._upkeep.heartbeat.worker_id)
            self.drained_remotely = True
            self._stop.set()

    def crash(self) -> None:
        """For tests: end as if the process had been killed. Its jobs stay as they are in the database.

        Nothing more is written or signed off, so another worker takes the jobs when the lease is over.
        """
        self._crashed = True
        for connection in self._connections():
            connection.refuse()
        self._running.transactional.cut(in_use=True)
        self._running.executor.stop_all("lost")
        self._stop.set()

    async def run(self, *, signals: bool = False, process: int = 0) -> WorkerReport:
        """Serve until `stop`, or until SIGTERM or SIGINT if `signals` is true.

        A cancellation drains, too, and is raised after that. Another one stops all jobs at once.
        `process` is the number of this process under a supervisor. Its health endpoint is that many
        ports after the configured one.
        """
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT) if signals else ()
        for number in handled:
            loop.add_signal_handler(number, self.stop)
        unsubscribe = self._spec.clock.on_move(lambda: _soon(loop, self._time_moved))
        try:
            logs.name_jobs()
            self._log_start()
            if self._idle_watch is None:
                health = self._spec.options.health
                self._upkeep.observers.start(health, process, self._spec.served)
            await self._connection.verify()
            await self._upkeep.declarations.declare()
            services = self._upkeep.health.watch(self._services())
            for service in services:
                service.start()
            served = ", ".join(self._spec.served)
            log.info("serving %s with %d slots", served, self._spec.slots)
            try:
                await self._stop.wait()
            finally:
                await self._end(services)
            return self.report
        finally:
            unsubscribe()
            await self._upkeep.observers.stop()
            for number in handled:
                loop.remove_signal_handler(number)

    async def run_until_idle(self) -> WorkerReport:
        """Serve until nothing is ready, running or due."""
        self._idle_watch = IdleWatch(
            EngineConnection(self._spec.target),
            self._is_idle,
            self._running.executor,
            self._claiming.settler,
            self._upkeep.maintenance,
            on_idle=self.stop,
        )
        return await self.run()

    def _services(self) -> list[Service]:
        """Return the services in the order of their start. They stop in reverse order: the job loop may
        leave freed keys to the parallel admitter until it ends."""
        upkeep, running = self._upkeep, self._running
        parallel_admitter = ParallelAdmitter(self._claiming.keys)
        services: list[Service] = [upkeep.heartbeat, parallel_admitter, self._job_loop]
        if self._claiming.events.wanted:
            services.insert(0, self._claiming.events)
        services += [*upkeep.maintenance.services, upkeep.declarations]
        services += [running.progress, running.stops]
        channel = self._spec.target.work_channel
        if self._spec.options.listen and channel is not None:
            parts = (self._job_loop, upkeep.maintenance, running.stops, upkeep.heartbeat)
            hints = Hints(*parts, upkeep.health, self._spec.options)
            self._listener = WorkListener(self._spec.target, channel, hints)
            services.append(self._listener)
        else:
            upkeep.health.listening = False
        if self._idle_watch is not None:
            services.append(self._idle_watch)
        return services

    def _time_moved(self) -> None:
        """Look at everything anew: what was to come later may be due."""
        if (now := self._spec.clock.now()) is not None:
            self._running.executor.time_moved(now)
        maintenance = self._upkeep.maintenance
        for service in (maintenance.promoter, maintenance.admitter, maintenance.scheduler):
            service.hint()
        maintenance.sweeper.run_all()
        self._job_loop.controls_changed()

    def _is_idle(self) -> Statement[bool]:
        queues = None if EVERY in self._spec.queues else self._spec.served
        return jobs.idle(queues, self._spec.handlers, self._spec.clock.now())

    def _log_start(self) -> None:
        target = self._spec.target
        log.info(
            "headway %s on %s: %s and %s",
            self._spec.version,
            place_of(target.dsn, target.schema, embedded=target.away is not None),
            _counted(len({d.name for d in self._spec.definitions.values()}), "task"),
            _counted(len(self._upkeep.declarations.names), "schedule"),
        )

    # -- the lease: `heartbeat.LeaseListener` -----------------------------------------------------

    def register(self, was: int | None) -> Statement[int]:
        if was is not None:
            # After an outage other workers register again, too. Until then their jobs seem lost.
            self._upkeep.maintenance.sweeper.hold_back("rescue", LONGEST_PAUSE * 1.2)
        return fleet.register(
            f"{socket.gethostname()}:{os.getpid()}",
            self._spec.version,
            self._spec.slots,
            self._spec.served,
            self._spec.handlers,
            seconds(self._spec.options.lease),
            self._spec.clock.now(),
            schedules=self._upkeep.declarations.names,
            was=was,
        )

    def says(self) -> tuple[bool | None, str | None]:
        return self._upkeep.health.says()

    def trust(self, worker_id: int) -> None:
        if worker_id and not self._announced_id:
            self._claiming.events.worker(self._event("worker_started", worker_id))
        if worker_id and worker_id != self._announced_id:
            self._announced_id = worker_id
            log.info("registered as worker %d", worker_id)
        self._claiming.registration.worker_id = worker_id
        self._job_loop.wake()
        self._upkeep.declarations.registered(worker_id)
        self._upkeep.observers.look()

    def lead(self, ours: bool) -> None:
        self._upkeep.health.leads = ours
        self._upkeep.maintenance.lead(ours)

    def lose(self) -> None:
        self._running.executor.stop_all("lost")

    def reconnect(self, moved: bool) -> None:
        """Cut connections that wait for an answer; the services ask again. Connections that are kept
        for handlers are dropped. If the worker `moved` to another server, so are those that handlers
        use."""
        self._cut()
        self._running.transactional.cut(in_use=moved)

    def _connections(self) -> list[EngineConnection]:
        """Return those that write about jobs, and that of the idle watch. The heartbeat has its own."""
        loop, keys = self._job_loop, self._claiming.keys
        return [loop.connection, loop.settling, self._connection, keys.connection]

    def _cut(self) -> None:
        for connection in self._connections():
            connection.cut()
        if self._listener is not None:
            self._listener.cut()

    # -- ending -----------------------------------------------------------------------------------

    async def _end(self, services: list[Service]) -> None:
        """Drain and close. A cancellation meanwhile stops all jobs, but not this: they go back first."""
        self._stop.set()
        ending = asyncio.create_task(self._drain_and_close(services))
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                cancelled = True
                self._running.executor.stop_all("shutdown")
        if cancelled:
            raise asyncio.CancelledError
        await ending

    async def _drain_and_close(self, services: list[Service]) -> None:
        if not self._crashed:
            await self._drain()
        await self._close(services)

    async def _drain(self) -> None:
        """Let running jobs finish. Jobs that have not started go back at once (G11)."""
        executor, settler = self._running.executor, self._claiming.settler
        log.info("draining, with %d jobs under way", len(executor.running))
        self._upkeep.observers.draining()
        try:
            async with asyncio.timeout(seconds(self._spec.options.grace)):
                await self._job_loop.drain()
                executor.stop_all("shutdown", unstarted_only=True)
                await executor.idle()
        except TimeoutError:
            log.warning("%d jobs did not finish within the grace", len(executor.running))
            executor.stop_all("shutdown")
        try:
            async with asyncio.timeout(_SETTLE_AFTER_GRACE):
                await executor.idle()
                await settler.drained()
        except TimeoutError:
            log.error("stopping with %d verdicts unsettled", settler.unsettled)

    async def _close(self, services: list[Service]) -> None:
        # Wait no longer than this for a database that does not answer.
        loop = asyncio.get_running_loop()
        if self._announced_id:
            events = self._claiming.events
            events.worker(self._event("worker_stopped", self._announced_id))
            await events.finish()
        late = loop.call_later(_ANSWER_AT_CLOSE, self._cut)
        for service in reversed(services):
            await service.stop()
        late.cancel()
        await self._running.executor.close()
        await self._running.transactional.close()
        if self.id and not self._crashed:
            late = loop.call_later(_ANSWER_AT_CLOSE, self._cut)
            await self._retire()
            late.cancel()
        await self._connection.close()

    def _event(self, name: WorkerEventName, worker_id: int) -> WorkerEvent:
        return WorkerEvent(
            name=name,
            worker_id=worker_id,
            queues=self._spec.served,
            slots=self._spec.slots,
            at=wall(),
            settled=self.report.settled,
        )

    async def _retire(self) -> None:
        try:
            await self._connection.run(fleet.retire(self.id, self._spec.clock.now()))
        except Exception as error:
            log.warning("could not sign off; the lease will expire by itself: %s", error)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call a function on a loop, from whichever thread this is. A loop that was closed is left alone."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
