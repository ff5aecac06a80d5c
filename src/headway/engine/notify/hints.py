"""What a worker does with the hints that it hears: somebody looks sooner. None of them decides
anything (G15)."""

from __future__ import annotations

from collections.abc import Callable

from headway.engine.claiming.planner import Claimer
from headway.engine.heartbeat import Heartbeat
from headway.engine.jobs.round_trip import Exchange
from headway.engine.maintenance.leader import Duties
from headway.engine.running.stops import Stops
from headway.store.rows import Lane


class Hints:
    """Passes hints on to the services that they are for. The events of `wake.Events`."""

    def __init__(
        self,
        claimer: Claimer,
        exchange: Exchange,
        duties: Duties,
        stops: Stops,
        heartbeat: Heartbeat,
        listening: Callable[[bool], None],
    ) -> None:
        """`listening` is told whether notifications arrive."""
        self._claimer = claimer
        self._exchange = exchange
        self._duties = duties
        self._stops = stops
        self._heartbeat = heartbeat
        self._listening = listening

    def listening(self, listening: bool) -> None:
        self._listening(listening)

    def ready(self, lane: Lane | None) -> None:
        if self._claimer.hint(lane):
            self._exchange.wake()

    def later(self) -> None:
        self._duties.promoter.hint()

    def joined(self) -> None:
        self._duties.admitter.hint()

    def room(self, job_id: str | None) -> None:
        self._duties.admitter.room(job_id)

    def control(self) -> None:
        self._exchange.controls_changed()
        self._duties.admitter.hint()
        self._duties.sweeper.hurry("limits")

    def opened(self, kind: str, name: str) -> None:
        if self._claimer.open((kind, name)):
            self._exchange.wake()

    def cancel(self, job_id: str) -> None:
        self._stops.hint(job_id)
        self._duties.sweeper.hurry("stops")

    def drain(self, worker: str) -> None:
        if worker == str(self._heartbeat.worker_id):
            self._heartbeat.hint()

    def scheduled(self) -> None:
        self._duties.scheduler.hint()
