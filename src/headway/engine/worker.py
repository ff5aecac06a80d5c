"""One worker process: wires the services together, drains, stops.

wake ──hints──► exchange ◄──verdicts── executor ──► handlers ──► books
                   │  claims ─────────────►│
heartbeat: lease, cancellations, duty ──► sweeper, promoter, admitter
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from headway.core.clock import Clock
from headway.core.config import WorkerOptions
from headway.core.definition import Definition
from headway.core.duration import seconds
from headway.engine.admitter import Admitter
from headway.engine.books import Books
from headway.engine.claimer import Claimer
from headway.engine.exchange import Exchange
from headway.engine.executor import Executor
from headway.engine.heartbeat import BEATS_PER_LEASE, Heartbeat
from headway.engine.idle import IdleWatch
from headway.engine.invoke import Overrides
from headway.engine.notes import Notes
from headway.engine.service import Service, log
from headway.engine.sweeps import Promoter, Sweeper, sweeps
from headway.engine.wake import Wake
from headway.errors import ConfigError
from headway.store import fleet, jobs
from headway.store.connect import Target
from headway.store.link import Link
from headway.store.rows import Lane
from headway.store.statement import Statement

_SETTLE_AFTER_GRACE = 10.0
_ANSWER_AT_CLOSE = 5.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker did in its life: verdicts by kind, and claims it lost."""

    settled: Mapping[str, int]
    lost: int

    @property
    def total(self) -> int:
        return sum(self.settled.values())


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
    ) -> None:
        for definition in definitions.values():
            definition.check()
        self._target = target.named(f"headway worker {os.getpid()}")
        self._clock = clock
        self._options = options
        self._version = version
        self._definitions = definitions
        self._handlers = sorted(definitions)
        self._queues = dict(options.queues) or {d.queue: 1 for d in definitions.values()}
        if not definitions:
            raise ConfigError("this app has no tasks; import the modules that define them first")
        processes = options.processes or os.cpu_count() or 1
        slots_of = {
            d.handler: slots for d in definitions.values() if (slots := _slots(d, processes))
        }
        self._claimer = Claimer(self._queues, self._handlers, slots_of, options.batch)
        jobs_link = Link(self._target)
        self._exchange = Exchange(jobs_link, clock, self._claimer, options.batch)
        self._books = Books(
            self._target,
            clock,
            options.transactions,
            worker=lambda: self._exchange.worker_id,
            hand_on=self._exchange.hand_on,
        )
        self._executor = Executor(
            definitions,
            self._exchange.settler,
            slots=options.concurrency,
            processes=processes,
            max_result=max_result,
            overrides=overrides,
            books=self._books,
            on_end=self._slot_free,
            on_note=lambda: self._notes.wake(),
        )
        self._exchange.serve(self._executor)
        self._exchange.poll = seconds(options.poll_alone)
        duties = Link(self._target)
        lease = seconds(options.lease)
        self._sweeper = Sweeper(duties, clock, sweeps(target, lease))
        self._promoter = Promoter(duties, clock, seconds(options.poll))
        self._promoter.poll = seconds(options.poll_alone)
        self._admitter = Admitter(duties, clock, seconds(options.poll))
        self._admitter.poll = seconds(options.poll_alone)
        self._notes = Notes(duties, self._executor)
        self._duties = duties
        self._links = [jobs_link, duties]
        # A beat that is not answered in time must leave time for another.
        beats = Link(self._target, patience=max(1.0, lease / BEATS_PER_LEASE))
        self._heartbeat = Heartbeat(
            beats,
            clock,
            self._executor,
            lease,
            register=self._register,
            trust=self._trust,
            duty=self._on_duty,
            reconnect=self._cut,
        )
        self._wake: Wake | None = None
        self._slots_of = slots_of
        self._watch: IdleWatch | None = None
        self._stop = asyncio.Event()

    @property
    def id(self) -> int:
        return self._exchange.worker_id

    @property
    def report(self) -> Report:
        return Report(dict(self._exchange.settler.settled), self._exchange.settler.lost)

    def stop(self) -> None:
        """Begins to drain; `run` returns when that is done. Told again, it waits for nobody."""
        if self._stop.is_set():
            self._executor.stop_all("shutdown")
        self._stop.set()

    async def run(self, *, signals: bool = False) -> Report:
        """Serves until `stop`, or SIGTERM or SIGINT if `signals` are to be heeded."""
        loop = asyncio.get_running_loop()
        heeded = (signal.SIGTERM, signal.SIGINT) if signals else ()
        for number in heeded:
            loop.add_signal_handler(number, self.stop)
        try:
            await self._duties.verify()
            await self._duties.run(fleet.declare(self._definitions.values()))
            services = self._services()
            for service in services:
                service.start()
            log.info("serving %s with %d slots", ", ".join(self._queues), self._options.concurrency)
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
            for number in heeded:
                loop.remove_signal_handler(number)

    async def run_until_idle(self) -> Report:
        """Serves until nothing is ready, running or due."""
        self._watch = IdleWatch(
            Link(self._target),
            lambda: jobs.idle(list(self._queues), self._handlers, self._clock.now()),
            self._executor,
            self._exchange.settler,
            between=self._look_again,
            idle=self.stop,
        )
        return await self.run()

    # -- wiring -----------------------------------------------------------------------------------

    def _services(self) -> list[Service]:
        services: list[Service] = [
            self._heartbeat,
            self._exchange,
            self._promoter,
            self._admitter,
            self._sweeper,
            self._notes,
        ]
        channel = self._target.work_channel
        if self._options.listen and channel is not None:
            self._wake = Wake(
                self._target,
                channel,
                ready=self._ready,
                later=self._promoter.hint,
                joined=self._admitter.hint,
                room=self._admitter.room,
                cancel=lambda job_id: self._executor.stop(job_id, "cancel"),
                listening=self._listening,
            )
            services.append(self._wake)
        if self._watch is not None:
            services.append(self._watch)
        return services

    def _register(self) -> Statement[int]:
        return fleet.register(
            f"{socket.gethostname()}:{os.getpid()}",
            self._version,
            self._options.concurrency,
            list(self._queues),
            self._handlers,
            seconds(self._options.lease),
            self._clock.now(),
        )

    def _trust(self, worker_id: int) -> None:
        self._exchange.worker_id = worker_id
        self._exchange.wake()

    def _look_again(self) -> None:
        self._promoter.wake()
        self._admitter.wake()

    def _cut(self) -> None:
        """Waits no longer for answers that are under way; whoever asked does so again."""
        for link in self._links:
            link.cut()
        if self._wake is not None:
            self._wake.cut()

    def _on_duty(self, ours: bool) -> None:
        self._sweeper.duty(ours)
        self._promoter.duty(ours)
        self._admitter.duty(ours)

    def _ready(self, lane: Lane | None) -> None:
        if self._claimer.hint(lane):
            self._exchange.wake()

    def _listening(self, listening: bool) -> None:
        poll = seconds(self._options.poll if listening else self._options.poll_alone)
        for service in (self._exchange, self._promoter, self._admitter):
            service.poll = poll
            service.wake()  # it may be asleep for longer than that

    def _slot_free(self, definition: Definition) -> None:
        if definition.handler in self._slots_of:
            self._claimer.hint()
        self._exchange.wake()

    # -- ending -----------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Lets what runs finish; what has not started goes back at once (G11)."""
        log.info("draining, with %d jobs under way", len(self._executor.running))
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
        await self._duties.close()

    async def _retire(self) -> None:
        try:
            await self._duties.run(fleet.retire(self._exchange.worker_id, self._clock.now()))
        except Exception as error:
            log.warning("could not sign off, the lease will end by itself: %s", error)


def _slots(definition: Definition, processes: int) -> int | None:
    """How many of a task may run at once here, if fewer than the worker's slots."""
    if definition.executor == "process":
        return min(definition.slots or processes, processes)
    return definition.slots
