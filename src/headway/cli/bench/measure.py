"""Runs the measurements of `headway bench`, each bounded in jobs and in time.

Everything runs in this process: the app, a worker and bare SQL, on the same settings of connections. The
cases that are compared take turns, a slice each, so that whatever else the machine does meets them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from headway import Worker
from headway.app import Headway
from headway.cli.bench.figures import Figure, Figures
from headway.core.clock import monotonic
from headway.store.activity import ActivityWatch
from headway.store.yardstick import Yardstick
from headway.task import Task

Tell = Callable[[float, str], None]
"""Takes the share that is done, and what is being measured."""

_SLICE = 0.1
_WARM_UP = 20
_PICK_UPS = 200
_PICK_UP_EVERY = 0.02
_REST = 0.002
_GIVE_UP_AFTER = 30.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much to measure: the most jobs, and the most seconds of each measurement."""

    jobs: int
    seconds: float
    chunk: int
    concurrency: int


@dataclass(slots=True)
class Measurement:
    """One run of all measurements."""

    hw: Headway
    yardstick: Yardstick
    watch: ActivityWatch
    bounds: Bounds
    tell: Tell
    figures: Figures = field(default_factory=Figures)
    _worked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a handler starts."""

    async def run(self) -> Figures:
        """Measure everything. The pick-up comes first: later there is a backlog."""
        noop = self._task()
        await self.yardstick.create_table()
        await self._with_worker(lambda worker: self._pick_up(noop))
        await self._one_by_one(noop)
        await self._bulk(noop)
        await self._with_worker(self._drain)
        self.tell(1.0, "done")
        return self.figures

    def _task(self) -> Task[..., Any]:
        async def noop(n: int, sent_at: float | None = None) -> int:
            self._worked.set()
            if sent_at is not None:
                self.figures.pick_up.durations.append(monotonic() - sent_at)
            return n

        return self.hw.task(noop)

    async def _with_worker(self, measure: Callable[[Worker], Awaitable[None]]) -> None:
        """Measure while a worker runs in this process."""
        worker = self.hw.worker(concurrency=self.bounds.concurrency)

        async def measured() -> None:
            try:
                await measure(worker)
            finally:
                worker.stop()

        await asyncio.gather(worker.run(), measured())

    async def _pick_up(self, noop: Task[..., Any]) -> None:
        """Enqueue a job at a time, at a pace that leaves the worker idle in between."""
        figure, worked = self.figures.pick_up, self._worked
        await noop.enqueue(0)
        await self._within(worked.wait())
        while self._goes_on(figure) and figure.jobs < _PICK_UPS:
            await asyncio.sleep(_PICK_UP_EVERY)
            worked.clear()
            with self.watch.over(figure.activity):
                await noop.enqueue(figure.jobs, sent_at=monotonic())
                await self._within(worked.wait())
            figure.jobs += 1
            self.tell(0.1 * figure.jobs / _PICK_UPS, figure.name)

    async def _one_by_one(self, noop: Task[..., Any]) -> None:
        """Round trips, bare INSERTs and enqueues take turns, until each had its time or its jobs."""
        figures, yardstick = self.figures, self.yardstick
        cases: list[tuple[Figure, Callable[[], Awaitable[Any]]]] = [
            (figures.round_trip, yardstick.round_trip),
            (figures.insert, yardstick.insert),
            (figures.quick_insert, yardstick.insert),
            (figures.enqueue, lambda: noop.enqueue(1)),
        ]
        for _, operation in cases:
            for _ in range(_WARM_UP):
                await operation()
        while left := [case for case in cases if self._goes_on(case[0])]:
            for figure, operation in left:
                await yardstick.wait_for_commits(figure is not figures.quick_insert)
                with self.watch.over(figure.activity):
                    await self._slice(figure, operation)
            done = min(self._share(figure) for figure, _ in cases)
            self.tell(0.1 + 0.4 * done, figures.enqueue.name)

    async def _slice(self, figure: Figure, operation: Callable[[], Awaitable[Any]]) -> None:
        began = before = monotonic()
        while before - began < _SLICE and figure.jobs < self.bounds.jobs:
            await operation()
            now = monotonic()
            figure.durations.append(now - before)
            figure.jobs += 1
            before = now

    async def _bulk(self, noop: Task[..., Any]) -> None:
        figure = self.figures.bulk
        while self._goes_on(figure):
            count = min(self.bounds.chunk, self.bounds.jobs - figure.jobs)
            calls = [{"n": number} for number in range(count)]
            with self.watch.over(figure.activity):
                await noop.enqueue_many(calls)
            figure.jobs += count
            self.tell(0.5 + 0.2 * self._share(figure), figure.name)

    async def _drain(self, worker: Worker) -> None:
        """Count from the moment at which the worker may claim to the last verdict that is stored."""
        figure = self.figures.drain
        backlog = self.figures.bulk.jobs + self.figures.enqueue.jobs + _WARM_UP
        await self._within(self._registered(worker))
        with self.watch.over(figure.activity):
            began = monotonic()
            while figure.jobs < backlog and monotonic() - began < self.bounds.seconds:
                await asyncio.sleep(_REST)
                figure.jobs = worker.report.total
                self.tell(0.7 + 0.3 * figure.jobs / backlog, figure.name)

    def _goes_on(self, figure: Figure) -> bool:
        return self._share(figure) < 1.0

    def _share(self, figure: Figure) -> float:
        """Return how much of a measurement is done, by jobs or by time."""
        by_jobs = figure.jobs / self.bounds.jobs
        return min(1.0, max(by_jobs, figure.activity.seconds / self.bounds.seconds))

    async def _registered(self, worker: Worker) -> None:
        while not worker.id:  # noqa: ASYNC110  nobody is told of it
            await asyncio.sleep(_REST)

    async def _within(self, event: Awaitable[Any]) -> None:
        """Wait for an event. Raise TimeoutError if it does not come in time."""
        await asyncio.wait_for(event, _GIVE_UP_AFTER)
