"""The services that keep the fleet's jobs moving, as one worker has them."""

from __future__ import annotations

from headway.core.clock import Clock
from headway.core.config import WorkerOptions
from headway.core.duration import seconds
from headway.engine.keys.admission import KeyAdmission
from headway.engine.keys.admitting import Admitter
from headway.engine.maintenance.gatherer import Gatherer
from headway.engine.maintenance.job_counts import JobCounter
from headway.engine.maintenance.leader import LeaderService
from headway.engine.maintenance.promoter import Promoter
from headway.engine.maintenance.scheduler import Scheduler
from headway.engine.maintenance.sweeps import Sweep, Sweeper, sweeps
from headway.store.connections.engine_connection import EngineConnection


class Maintenance:
    """Sweeps, promotes, admits, fires schedules and counts. All but the admitter share a connection."""

    def __init__(
        self,
        connection: EngineConnection,
        clock: Clock,
        options: WorkerOptions,
        keys: KeyAdmission,
    ) -> None:
        net = seconds(options.poll)
        self.gatherer = Gatherer(connection)
        self._gathering = Sweep("gather", self.gatherer.run, net)
        self.sweeper = Sweeper(
            connection, clock, [*sweeps(connection, seconds(options.lease)), self._gathering]
        )
        self.promoter = Promoter(connection, clock, net)
        self.admitter = Admitter(keys, clock, net)
        self.scheduler = Scheduler(connection, clock, net)
        self._job_counter = JobCounter(connection, clock)
        self.poll_every(seconds(options.poll_alone))

    @property
    def services(self) -> list[LeaderService]:
        return [self.promoter, self.admitter, self.scheduler, self._job_counter, self.sweeper]

    def lead(self, leads: bool) -> None:
        """This worker is the leader, or is not."""
        for service in self.services:
            service.lead(leads)

    def poll_every(self, poll: float) -> None:
        """Poll this often without being notified."""
        for service in (self.promoter, self.admitter, self.scheduler):
            service.poll = poll
        self._gathering.every = poll
        self.wake()  # they may be asleep for longer than that

    def wake(self) -> None:
        """Let the services that make jobs ready run now."""
        for service in (self.promoter, self.admitter, self.scheduler):
            service.wake()
