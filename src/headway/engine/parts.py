"""The parts of a worker, and how they are connected.

Three functions make them, each from the parts before it:

claiming ──► running ──► job loop ──► upkeep

A part that wakes a service which is made later gets the event that wakes it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from headway.core.clock import Clock
from headway.core.config import WorkerOptions
from headway.core.definition import Definition
from headway.core.duration import seconds
from headway.core.hooks import Hooks
from headway.engine.claiming.planner import ClaimPlanner
from headway.engine.claiming.slots import check_batches, slots_of
from headway.engine.event_calls import EventCalls
from headway.engine.health.observers import Observers
from headway.engine.health.state import Health
from headway.engine.heartbeat import Heartbeat, LeaseListener, beat_every
from headway.engine.jobs.loop import JobLoop
from headway.engine.jobs.settler import Settler
from headway.engine.keys.admission import KeyAdmission
from headway.engine.maintenance.declarations import Declarations, DeclaredByCode
from headway.engine.maintenance.services import Maintenance
from headway.engine.registration import Registration
from headway.engine.running.child import Prepare
from headway.engine.running.executor import Executor
from headway.engine.running.invoke import Overrides
from headway.engine.running.isolation import Isolation
from headway.engine.running.progress import ProgressWriter
from headway.engine.running.stops import Stops
from headway.engine.running.transactional import TransactionalSettler
from headway.errors import ConfigError
from headway.store.connections.connect import Target
from headway.store.connections.engine_connection import EngineConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """Everything that a worker is made from."""

    target: Target
    definitions: Mapping[str, Definition]
    options: WorkerOptions
    version: str
    clock: Clock
    max_result: int
    overrides: Overrides
    prepare_child: Prepare
    """Called first in every process that runs tasks."""
    max_wait: float | None
    """How long a ready job may wait before /readyz mentions it."""
    declared: DeclaredByCode
    hooks: Hooks
    isolate: bool = True
    """Suspects run in child processes. In a test they run here, alone."""

    def check(self) -> None:
        """Raise ConfigError if a worker cannot serve these tasks with these options."""
        for definition in self.definitions.values():
            definition.check()
        if not self.definitions:
            raise ConfigError("this app has no tasks; import the modules that define them first")
        check_batches(self.definitions, self.queues, self.options)

    @property
    def queues(self) -> dict[str, int]:
        """The queues that share slots, with their weights: those of all tasks if none are named."""
        if self.options.queues or self.options.dedicated:
            return dict(self.options.queues)
        return {definition.queue: 1 for definition in self.definitions.values()}

    @property
    def served(self) -> list[str]:
        """The names of all queues that are served."""
        return [*self.queues, *self.options.dedicated]

    @property
    def handlers(self) -> list[str]:
        return sorted(self.definitions)

    @property
    def slots(self) -> int:
        """All slots, those of dedicated queues included."""
        shared = self.options.concurrency if self.queues else 0
        return shared + sum(self.options.dedicated.values())

    @property
    def processes(self) -> int:
        return self.options.processes or os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Claiming:
    """The parts that decide which jobs are claimed, and under which id."""

    registration: Registration
    planner: ClaimPlanner
    keys: KeyAdmission
    settler: Settler
    events: EventCalls
    job_loop_woken: asyncio.Event


@dataclass(frozen=True, slots=True)
class Running:
    """The parts that run jobs."""

    executor: Executor
    transactional: TransactionalSettler
    progress: ProgressWriter
    stops: Stops


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The parts that keep the worker and the fleet going."""

    maintenance: Maintenance
    declarations: Declarations
    heartbeat: Heartbeat
    health: Health
    observers: Observers


def make_claiming(spec: WorkerSpec) -> Claiming:
    woken = asyncio.Event()
    planner = ClaimPlanner(
        spec.queues,
        spec.options.dedicated,
        spec.handlers,
        slots_of(spec.definitions, spec.processes),
        spec.options.batch,
        strict=spec.options.order == "strict",
    )
    keys = KeyAdmission(EngineConnection(spec.target), spec.clock, planner, woken.set)
    events = EventCalls(spec.hooks)
    settler = Settler(spec.options.batch, woken.set, events.settled if events.wants_ends else None)
    return Claiming(Registration(), planner, keys, settler, events, woken)


def make_running(spec: WorkerSpec, claiming: Claiming, connection: EngineConnection) -> Running:
    """`connection` is for everything but claiming, settling, admitting and the lease."""
    transactional = TransactionalSettler(
        spec.target,
        spec.clock,
        spec.options.transactions,
        registration=claiming.registration,
        freed=claiming.keys.free,
    )
    isolation = Isolation(
        spec.target,
        most=spec.options.isolation if spec.isolate else 0,
        max_result=spec.max_result,
        prepare=spec.prepare_child,
        clock=spec.clock,
        overrides=spec.overrides,
        registration=claiming.registration,
        freed=claiming.keys.free,
    )
    progress = ProgressWriter(connection)
    executor = Executor(
        spec.definitions,
        claiming.settler,
        slots=spec.options.concurrency,
        dedicated=spec.options.dedicated,
        processes=spec.processes,
        max_result=spec.max_result,
        overrides=spec.overrides,
        prepare_child=spec.prepare_child,
        transactional=transactional,
        isolation=isolation,
        progress=progress,
        on_free_slot=claiming.job_loop_woken.set,
        on_start=claiming.events.started if claiming.events.wants_starts else None,
        clock=spec.clock,
    )
    stops = Stops(connection, executor, seconds(spec.options.lease))
    return Running(executor, transactional, progress, stops)


def make_job_loop(spec: WorkerSpec, claiming: Claiming, running: Running) -> JobLoop:
    return JobLoop(
        EngineConnection(spec.target),
        spec.clock,
        planner=claiming.planner,
        settler=claiming.settler,
        keys=claiming.keys,
        executor=running.executor,
        registration=claiming.registration,
        poll=seconds(spec.options.poll_alone),
        woken=claiming.job_loop_woken,
    )


def make_upkeep(
    spec: WorkerSpec,
    claiming: Claiming,
    running: Running,
    job_loop: JobLoop,
    connection: EngineConnection,
    owner: LeaseListener,
) -> Upkeep:
    """`owner` is told about the lease."""
    lease = seconds(spec.options.lease)
    # A heartbeat that is not answered in time must leave time for another one.
    beats = EngineConnection(spec.target, timeout=max(1.0, beat_every(lease)))
    heartbeat = Heartbeat(beats, spec.clock, lease, owner)
    health = Health(
        running.executor,
        job_loop,
        heartbeat,
        job_loop.connection,
        version=spec.version,
        slots=spec.slots,
        lease=lease,
    )
    return Upkeep(
        Maintenance(connection, spec.clock, spec.options, claiming.keys),
        Declarations(connection, spec.clock, spec.definitions.values(), spec.declared),
        heartbeat,
        health,
        Observers(health, spec.target, spec.clock, spec.max_wait),
    )
