"""One worker process: wires the services together, drains, stops.

wake ──hints──► exchange ◄──verdicts── executor ──► handlers ──► books
                   │  claims ─────────────►│
                   └──room──► hand-over
heartbeat: lease, cancellations, duty ──► sweeper, promoter, admitter
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping

from headway.core.clock import Clock
from headway.core.config import WorkerOptions
from headway.core.definition import Definition
from headway.core.duration import seconds
from headway.engine.claiming.fair_share import EVERY
from headway.engine.claiming.planner import Claimer
from headway.engine.claiming.slots import check_batches, slots_of
from headway.engine.health.observers import Observers
from headway.engine.health.state import Health
from headway.engine.heartbeat import Heartbeat, beat_every
from headway.engine.idle import IdleWatch
from headway.engine.jobs.round_trip import Exchange
from headway.engine.jobs.settler import Report
from headway.engine.maintenance.declarations import Declarations, Declared
from headway.engine.maintenance.leader import Duties
from headway.engine.notify.hints import Hints
from headway.engine.notify.work import Wake
from headway.engine.running.child import Prepare
from headway.engine.running.executor import Executor
from headway.engine.running.invoke import Overrides
from headway.engine.running.isolation import Isolation
from headway.engine.running.progress import Notes
from headway.engine.running.stops import Stops
from headway.engine.running.transactional import Books
from headway.engine.service import LONGEST_PAUSE, Service, log
from headway.errors import ConfigError
from headway.store import fleet, jobs
from headway.store.connect import Target
from headway.store.dsn import place_of
from headway.store.link import Link
from headway.store.rows import Lane
from headway.store.statement import Statement

_SETTLE_AFTER_GRACE = 10.0
_ANSWER_AT_CLOSE = 5.0


class Worker:
    """Serves queues until it is told to stop."""

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
        declared: Declared | None = None,
    ) -> None:
        """`prepare_child` is sent to the processes that run tasks, and called there first. `max_wait`
        is how long a ready job may wait before /readyz mentions it."""
        for definition in definitions.values():
            definition.check()
        self._target = target.named(f"headway worker {os.getpid()}")
        self._clock = clock
        self._options = options
        self._version = version
        self._definitions = definitions
        self._handlers = sorted(definitions)
        self._dedicated = dict(options.dedicated)
        self._queues = dict(options.queues)
        if not options.queues and not options.dedicated:
            self._queues = {definition.queue: 1 for definition in definitions.values()}
        self._served = [*self._queues, *self._dedicated]
        if not definitions:
            raise ConfigError("this app has no tasks; import the modules that define them first")
        check_batches(definitions, self._queues, options)
        processes = options.processes or os.cpu_count() or 1
        self._claimer = Claimer(
            self._queues,
            self._dedicated,
            self._handlers,
            slots_of(definitions, processes),
            options.batch,
            strict=options.order == "strict",
        )
        self._link = Link(self._target)
        """For everything that is not claiming, settling, admitting or the lease."""
        self._duties = Duties(self._link, clock, options, ready=self._ready)
        jobs_link = Link(self._target)
        self._exchange = Exchange(
            jobs_link,
            clock,
            self._claimer,
            options.batch,
            self._duties.hand_over,
            room_in=self._duties.admitter.expect,
        )
        self._books = Books(
            self._target,
            clock,
            options.transactions,
            worker=lambda: self._exchange.worker_id,
            hand_on=self._exchange.hand_on,
        )
        isolation = Isolation(
            self._target,
            most=options.isolation,
            max_result=max_result,
            prepare=prepare_child,
            clock=clock,
            overrides=overrides,
            worker=lambda: self._exchange.worker_id,
            hand_on=self._exchange.hand_on,
        )
        self._executor = Executor(
            definitions,
            self._exchange.settler,
            slots=options.concurrency,
            dedicated=self._dedicated,
            processes=processes,
            max_result=max_result,
            overrides=overrides,
            prepare_child=prepare_child,
            books=self._books,
            isolation=isolation,
            on_end=lambda _: self._exchange.wake(),
            on_note=lambda: self._notes.wake(),
        )
        self._exchange.serve(self._executor)
        self._exchange.poll = seconds(options.poll_alone)
        lease = seconds(options.lease)
        self._declarations = Declarations(
            self._link, clock, definitions.values(), declared or Declared()
        )
        self._notes = Notes(self._link, self._executor)
        self._links = [jobs_link, self._link, self._duties.admitting]
        # A beat that is not answered in time must leave time for another.
        beats = Link(self._target, patience=max(1.0, beat_every(lease)))
        self._heartbeat = Heartbeat(
            beats,
            clock,
            lease,
            register=self._register,
            says=lambda: self._health.says(),
            owner=self,
        )
        self._stops = Stops(self._link, self._executor, lease)
        parts = (self._executor, self._exchange, self._heartbeat, jobs_link)
        self._health = Health(*parts, version=version, slots=self._slots, lease=lease)
        self._observers = Observers(self._health, self._target, clock, max_wait)
        self.drained_from_afar = False
        """It was asked to drain by someone else, through the database."""
        self._named = 0
        """The id by which it last said that it is registered."""
        self._wake: Wake | None = None
        self._watch: IdleWatch | None = None
        self._stop = asyncio.Event()

    @property
    def _slots(self) -> int:
        shared = self._options.concurrency if self._queues else 0
        return shared + sum(self._dedicated.values())

    @property
    def id(self) -> int:
        return self._exchange.worker_id

    @property
    def report(self) -> Report:
        return self._exchange.settler.report

    def stop(self) -> None:
        """Begins to drain; `run` returns when that is done. Told again, it waits for nobody."""
        if self._stop.is_set():
            self._executor.stop_all("shutdown")
        self._stop.set()

    def drain(self) -> None:
        """As `stop` for the first time, however often: somebody asked this worker to."""
        if not self._stop.is_set():
            log.info("worker %d was asked to drain", self._heartbeat.worker_id)
            self.drained_from_afar = True
            self._stop.set()

    async def run(self, *, signals: bool = False, process: int = 0) -> Report:
        """Serves until `stop`, or SIGTERM or SIGINT if `signals` are to be heeded.

        Of several processes under a supervisor each has its number, `process`, and answers about its
        health as many ports further on.
        """
        loop = asyncio.get_running_loop()
        heeded = (signal.SIGTERM, signal.SIGINT) if signals else ()
        for number in heeded:
            loop.add_signal_handler(number, self.stop)
        try:
            log.info(
                "headway %s on %s: %s and %s",
                self._version,
                place_of(
                    self._target.dsn, self._target.schema, embedded=self._target.away is not None
                ),
                _counted(len({d.name for d in self._definitions.values()}), "task"),
                _counted(len(self._declarations.names), "schedule"),
            )
            if self._watch is None:
                self._observers.start(self._options.health, process, self._served)
            await self._link.verify()
            await self._declarations.declare()
            services = self._health.watch(self._services())
            for service in services:
                service.start()
            log.info("serving %s with %d slots", ", ".join(self._served), self._slots)
            try:
                await self._stop.wait()
            except asyncio.CancelledError:
                self._executor.stop_all("shutdown")
                raise
            finally:
                await self._drain()
                await self._close(services)
            return self.report
        finally:
            await self._observers.stop()
            for number in heeded:
                loop.remove_signal_handler(number)

    async def run_until_idle(self) -> Report:
        """Serves until nothing is ready, running or due."""
        self._watch = IdleWatch(
            Link(self._target),
            lambda: jobs.idle(
                None if EVERY in self._queues else self._served, self._handlers, self._clock.now()
            ),
            self._executor,
            self._exchange.settler,
            between=self._duties.look_again,
            idle=self.stop,
        )
        return await self.run()

    # -- wiring -----------------------------------------------------------------------------------

    def _services(self) -> list[Service]:
        # Stopped from the last to the first: the exchange may give something to hand over to the end.
        services: list[Service] = [self._heartbeat, self._duties.hand_over, self._exchange]
        services += [*self._duties.services, self._declarations, self._notes, self._stops]
        channel = self._target.work_channel
        if self._options.listen and channel is not None:
            parts = (self._claimer, self._exchange, self._duties, self._stops, self._heartbeat)
            self._wake = Wake(self._target, channel, Hints(*parts, self._listening))
            services.append(self._wake)
        else:
            self._health.listening = False
        if self._watch is not None:
            services.append(self._watch)
        return services

    def _register(self, was: int | None) -> Statement[int]:
        if was is not None:
            # After an outage the others register again, too. Until then their jobs look lost.
            self._duties.sweeper.hold_back("rescue", LONGEST_PAUSE * 1.2)
        return fleet.register(
            f"{socket.gethostname()}:{os.getpid()}",
            self._version,
            self._slots,
            self._served,
            self._handlers,
            seconds(self._options.lease),
            self._clock.now(),
            schedules=self._declarations.names,
            was=was,
        )

    # -- the lease (heartbeat.py) -----------------------------------------------------------------

    def trust(self, worker_id: int) -> None:
        if worker_id and worker_id != self._named:
            self._named = worker_id
            log.info("registered as worker %d", worker_id)
        self._exchange.worker_id = worker_id
        self._exchange.wake()
        self._declarations.registered(worker_id)
        self._observers.look()

    def lead(self, ours: bool) -> None:
        self._health.on_duty = ours
        self._duties.assign(ours)

    def lose(self) -> None:
        self._executor.stop_all("lost")

    def reconnect(self, moved: bool) -> None:
        """Cut connections that wait for an answer; the services ask again. Connections
        that are kept for handlers are given up, and if the server is another one, those that
        handlers use."""
        self._cut()
        self._books.cut(lent=moved)

    def _cut(self) -> None:
        for link in self._links:
            link.cut()
        if self._wake is not None:
            self._wake.cut()

    def _ready(self, lane: Lane | None, place: int | None = None) -> None:
        if self._claimer.hint(lane, place):
            self._exchange.wake()

    def _listening(self, listening: bool) -> None:
        self._health.listening = listening
        poll = seconds(self._options.poll if listening else self._options.poll_alone)
        self._exchange.poll = poll
        self._exchange.wake()  # it may be asleep for longer than that
        self._duties.poll_every(poll)

    # -- ending -----------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Lets what runs finish; what has not started goes back at once (G11)."""
        log.info("draining, with %d jobs under way", len(self._executor.running))
        self._observers.draining()
        try:
            async with asyncio.timeout(seconds(self._options.grace)):
                await self._exchange.drain()
                self._executor.stop_all("shutdown", unstarted_only=True)
                await self._executor.idle()
        except TimeoutError:
            log.warning("%d jobs did not finish within the grace", len(self._executor.running))
            self._executor.stop_all("shutdown")
        try:
            async with asyncio.timeout(_SETTLE_AFTER_GRACE):
                await self._executor.idle()
                await self._exchange.settler.drained()
        except TimeoutError:
            log.error("stopping with %d verdicts unsettled", self._exchange.settler.unsettled)

    async def _close(self, services: list[Service]) -> None:
        # A database that does not answer is waited for no longer than this.
        loop = asyncio.get_running_loop()
        late = loop.call_later(_ANSWER_AT_CLOSE, self._cut)
        for service in reversed(services):
            await service.stop()
        late.cancel()
        await self._executor.close()
        await self._books.close()
        if self._exchange.worker_id:
            late = loop.call_later(_ANSWER_AT_CLOSE, self._cut)
            await self._retire()
            late.cancel()
        await self._link.close()

    async def _retire(self) -> None:
        try:
            await self._link.run(fleet.retire(self._exchange.worker_id, self._clock.now()))
        except Exception as error:
            log.warning("could not sign off, the lease will end by itself: %s", error)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
