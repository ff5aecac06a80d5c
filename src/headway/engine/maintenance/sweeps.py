"""The sweeps of the fleet, which the leader runs: a list, and a loop over it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headway.core.clock import Clock, monotonic
from headway.engine.maintenance.leader import LeaderService
from headway.engine.service import log
from headway.engine.service_status import StatusTracker
from headway.errors import DatabaseUnavailable, HeadwayError
from headway.store.connections.engine_connection import EngineConnection
from headway.store.faults import is_held_up
from headway.store.statement import Statement
from headway.store.statements import controls, counts, fleet, jobs
from headway.store.statements.jobs import Moment

_BATCH = 1000
_TALLIED = 50_000
_NAMED = 10
_HURRIED_EVERY = 0.1
_AGAIN = 1.0
"""Seconds until a sweep that has more to do runs again."""
_LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class Sweep:
    """One sweep: what to run, and how often. It returns whether there is more to do."""

    name: str
    run: Callable[[Moment], Awaitable[bool]]
    every: float
    due_at: float = 0.0
    ran_at: float = 0.0
    pause: float = 0.0
    """The seconds that it rests after a failure; 0 while it works."""
    track: StatusTracker = field(init=False)

    def __post_init__(self) -> None:
        self.track = StatusTracker(f"sweep {self.name}")


def sweeps(connection: EngineConnection, lease: float) -> list[Sweep]:
    """Return all sweeps. Promotion is not one: it happens at exact moments (promoter.py)."""
    return [
        Sweep("rescue", partial(_rescue, connection), min(1.0, lease / 6)),
        Sweep("stops", partial(_stop, connection), 1.0),
        Sweep("expire", partial(_expire, connection), 1.0),
        Sweep("tally", partial(_run, connection, partial(counts.tally, _TALLIED)), 5.0),
        Sweep("limits", partial(_run, connection, lambda _: controls.mark_limited()), 5.0),
        Sweep("clean_up", partial(_run, connection, fleet.clean_up), 300.0),
        Sweep("partitions", partial(_partitions, connection), 600.0),
    ]


async def _run(
    connection: EngineConnection, statement: Callable[[Moment], Statement[Any]], now: Moment
) -> bool:
    await connection.run(statement(now))
    return False


async def _rescue(connection: EngineConnection, now: Moment) -> bool:
    """Take the jobs of lost workers back. Log an error for each job that fails for good."""
    rescued = await connection.run(jobs.rescue(connection.target, _BATCH, now))
    lost = {(job.worker_id, job.worker_name): job.crashed for job in rescued}
    for (worker, name), crashed in lost.items():
        ids = [job.id for job in rescued if job.worker_id == worker]
        log.warning(
            "worker %d (%s) %s; took back %d %s: %s",
            worker, name, "was lost" if crashed else "gave up its jobs",
            len(ids), "job" if len(ids) == 1 else "jobs", _some(ids),
        )  # fmt: skip
    for job in rescued:
        if job.came_to == "f":
            handler = f"{job.task}/{job.step}" if job.step else job.task
            log.error(
                "%s %s failed: WorkerLost: worker %d (%s)",
                handler, job.id, job.worker_id, job.worker_name,
                extra={"job_id": job.id, "task": job.task, "step": job.step},
            )  # fmt: skip
    return False


async def _stop(connection: EngineConnection, now: Moment) -> bool:
    """Cancel waiting jobs that were asked to stop. They ran, or were locked, when they were asked."""
    asked = await connection.run(jobs.asked(_BATCH))
    if asked:
        await connection.run(jobs.cancel(connection.target, asked, now))
        log.info("cancelled %d jobs that were asked to stop: %s", len(asked), _some(asked))
    return False


async def _expire(connection: EngineConnection, now: Moment) -> bool:
    expired = await connection.run(jobs.expire(connection.target, _BATCH, now))
    if expired:
        log.info("expired %d jobs", expired)
    return False


async def _partitions(connection: EngineConnection, now: Moment) -> bool:
    made, dropped, rows = await connection.run(fleet.partitions(now))
    if made or dropped or rows:
        log.info("made %d partitions, dropped %d; moved or deleted %d rows", made, dropped, rows)
    return made > 0 or dropped > 0 or rows >= fleet.MOST_ROWS


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")


class Sweeper(LeaderService):
    """Runs each sweep when it is due, for as long as this worker is the leader.

    A sweep that fails rests alone, and the others run (G8).
    """

    def __init__(self, connection: EngineConnection, clock: Clock, sweeps: list[Sweep]) -> None:
        super().__init__(connection, clock)
        self._sweeps = sweeps

    def tracks(self) -> list[StatusTracker]:
        """Return the track of the service and of each sweep: one may fail while the others work."""
        return [*super().tracks(), *(sweep.track for sweep in self._sweeps)]

    def hurry(self, name: str) -> None:
        """Run a sweep soon. It runs at most every 0.1 s, because anybody can send notifications."""
        for sweep in self._sweeps:
            if sweep.name == name and not sweep.pause:
                sweep.due_at = min(sweep.due_at, sweep.ran_at + _HURRIED_EVERY)
        self.wake()

    def run_all(self) -> None:
        """Run every sweep now, because the time has moved."""
        for sweep in self._sweeps:
            sweep.due_at = 0.0
        self.wake()

    def hold_back(self, name: str, seconds: float) -> None:
        """Run a sweep no earlier than in `seconds`."""
        for sweep in self._sweeps:
            if sweep.name == name:
                sweep.due_at = max(sweep.due_at, monotonic() + seconds)

    async def turn(self) -> float | None:
        if not self._leads:
            return None
        for sweep in self._sweeps:
            if sweep.due_at <= monotonic():
                sweep.track.began()
                try:
                    more = await sweep.run(self._clock.now())
                except Exception as error:
                    if isinstance(error, DatabaseUnavailable) and not is_held_up(error):
                        raise
                    self._failed(sweep, error)
                else:
                    sweep.track.works()
                    sweep.pause = 0.0
                    sweep.ran_at = monotonic()
                    sweep.due_at = sweep.ran_at + (_AGAIN if more else sweep.every)
        return max(0.01, min(sweep.due_at for sweep in self._sweeps) - monotonic())

    def _failed(self, sweep: Sweep, error: Exception) -> None:
        sweep.track.failed(error, expected=isinstance(error, HeadwayError))
        sweep.pause = min(max(sweep.every, sweep.pause * 2), _LONGEST_PAUSE)
        sweep.due_at = monotonic() + sweep.pause
