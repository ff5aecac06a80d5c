"""A worker's reactions to notifications: a service runs sooner. They decide nothing (G15)."""

from __future__ import annotations

from headway.core.config import WorkerOptions
from headway.core.duration import seconds
from headway.engine.health.state import Health
from headway.engine.heartbeat import Heartbeat
from headway.engine.jobs.loop import JobLoop
from headway.engine.maintenance.services import Maintenance
from headway.engine.running.stops import Stops
from headway.store.rows import Lane


class Hints:
    """Passes notifications on to the services of a worker. It implements `work.WorkEvents`."""

    def __init__(
        self,
        job_loop: JobLoop,
        maintenance: Maintenance,
        stops: Stops,
        heartbeat: Heartbeat,
        health: Health,
        options: WorkerOptions,
    ) -> None:
        self._job_loop = job_loop
        self._maintenance = maintenance
        self._stops = stops
        self._heartbeat = heartbeat
        self._health = health
        self._options = options

    def listening(self, listening: bool) -> None:
        self._health.listening = listening
        poll = seconds(self._options.poll if listening else self._options.poll_alone)
        self._job_loop.poll = poll
        self._job_loop.wake()  # it may be asleep for longer than that
        self._maintenance.poll_every(poll)

    def ready(self, lane: Lane | None) -> None:
        self._job_loop.hint(lane)

    def scheduled(self) -> None:
        self._maintenance.promoter.hint()

    def blocked(self) -> None:
        self._maintenance.admitter.hint()

    def room(self, job_id: str | None) -> None:
        self._maintenance.admitter.room(job_id)

    def controls_changed(self) -> None:
        self._job_loop.controls_changed()
        self._maintenance.admitter.hint()
        self._maintenance.sweeper.hurry("limits")

    def limit_opened(self, kind: str, name: str) -> None:
        self._job_loop.limit_opened(kind, name)

    def cancel(self, job_id: str) -> None:
        self._stops.hint(job_id)
        self._maintenance.sweeper.hurry("stops")

    def drain(self, worker: str) -> None:
        if worker == str(self._heartbeat.worker_id):
            self._heartbeat.hint()

    def gather(self, job_id: str) -> None:
        self._maintenance.gatherer.hint(job_id)
        self._maintenance.sweeper.hurry("gather")

    def schedule_changed(self) -> None:
        self._maintenance.scheduler.hint()
