"""The fleet's duties, as one worker has them: what everybody does a little of, and one does all of.

They share a connection; but the admitter has that of the hand-over, so that within a worker one
admits after the other: of places drawn by two at a time a cursor would pass some. The worker that has
the duty (heartbeat.py) acts as soon as something is said; the others look now and then, as a net.
"""

from __future__ import annotations

from collections.abc import Callable

from headway.core.clock import Clock
from headway.core.config import WorkerOptions
from headway.core.duration import seconds
from headway.engine.keys.admitter import Admitter
from headway.engine.keys.handoff import HandOver
from headway.engine.maintenance.job_counts import Census
from headway.engine.maintenance.scheduler import Scheduler
from headway.engine.maintenance.sweeps import Promoter, Sweeper, sweeps
from headway.engine.service import Service
from headway.store.link import Link
from headway.store.rows import Lane


class Duties:
    """Sweeps, promotes, admits, fires and counts."""

    def __init__(
        self,
        link: Link,
        clock: Clock,
        options: WorkerOptions,
        *,
        ready: Callable[[Lane, int], None],
    ) -> None:
        """`ready` is told of a lane in which there is something now, from a place on."""
        net = seconds(options.poll)
        self.sweeper = Sweeper(link, clock, sweeps(link, seconds(options.lease)))
        self.promoter = Promoter(link, clock, net)
        self.admitting = Link(link.target)
        self.admitter = Admitter(self.admitting, clock, net, ready)
        self.hand_over = HandOver(self.admitting, clock, self.admitter.admitted)
        self.scheduler = Scheduler(link, clock, net)
        self._census = Census(link, clock)
        self.poll_every(seconds(options.poll_alone))

    @property
    def services(self) -> list[Service]:
        return [self.promoter, self.admitter, self.scheduler, self._census, self.sweeper]

    def assign(self, ours: bool) -> None:
        """The duty is this worker's, or is not."""
        for service in (self.sweeper, self.promoter, self.admitter, self.scheduler, self._census):
            service.duty(ours)

    def poll_every(self, poll: float) -> None:
        """How often to look without being told of anything."""
        for service in (self.promoter, self.admitter, self.scheduler):
            service.poll = poll
            service.wake()  # it may be asleep for longer than that

    def look_again(self) -> None:
        """There may be something to do that nobody spoke of."""
        for service in (self.promoter, self.admitter, self.scheduler):
            service.wake()
