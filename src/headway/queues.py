"""`hw.queues`: look at queues, pause, limit, purge, move and drain them."""

from __future__ import annotations

import asyncio
import builtins
import time
from collections.abc import Callable
from typing import overload

from headway._api.session import Session
from headway.controls import Controls, Until
from headway.core.clock import monotonic
from headway.core.duration import Duration, optional_seconds
from headway.core.info import QueueInfo, QueueMetrics, WaitingCount
from headway.core.names import check_name
from headway.errors import ConfigError
from headway.store.connections.listen import poll_after
from headway.store.scripts import Script
from headway.store.statement import Statement
from headway.store.statements import bulk, inspect

OnProgress = Callable[[int], None]
"""Called with the number of jobs so far."""


class Queues:
    """The queues of one app's schema. A change applies to the whole fleet at once.

    >>> await hw.queues.pause("mail", reason="provider down", until="30m")      # doctest: +SKIP
    >>> (await hw.queues.metrics("mail")).ready                                 # doctest: +SKIP
    12
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._controls = Controls(session)

    async def list(self) -> builtins.list[QueueInfo]:
        """Return every queue that has jobs, a pause or limits."""
        return await self._session.run(inspect.queues(self._session.clock.now()))

    @overload
    async def metrics(self) -> builtins.list[QueueMetrics]: ...
    @overload
    async def metrics(self, queue: str) -> QueueMetrics: ...
    async def metrics(self, queue: str | None = None) -> builtins.list[QueueMetrics] | QueueMetrics:
        """Return the live jobs of a queue and how its jobs ended; without a name, of all queues."""
        found = await self._session.run(self._metrics(queue))
        return found if queue is None else found[0]

    async def pause(
        self,
        queue: str,
        *,
        reason: str | None = None,
        actor: str | None = None,
        until: Until = None,
    ) -> None:
        """Stop claims from a queue. Running jobs continue.

        The pause lasts until `resume`, or until `until`: a moment, or a duration from now. `reason` and
        `actor`, who paused it, are shown to people.
        """
        await self._controls.pause(queue=queue, reason=reason, actor=actor, until=until)

    async def resume(self, queue: str) -> bool:
        """End the pause of a queue. Return false if it was not paused."""
        return await self._controls.resume(queue=queue)

    async def limit(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        actor: str | None = None,
    ) -> None:
        """Limit how many jobs of a queue run at once, and how many start in a time, fleet-wide.

        Without `concurrency` and `rate` it lifts the limit. `actor` is who set it.
        """
        await self._controls.limit(
            queue=queue, concurrency=concurrency, rate=rate, burst=burst, actor=actor
        )

    async def waiting(self, queue: str, *, task: str | None = None) -> builtins.list[WaitingCount]:
        """Count the jobs that wait in a queue, by task and state: those `purge` and `move` change."""
        check_name(queue, "queue")
        return await self._session.run(bulk.waiting(queue, _task(task)))

    async def purge(
        self, queue: str, *, task: str | None = None, on_progress: OnProgress | None = None
    ) -> int:
        """Cancel the jobs that wait in a queue, of all tasks or of one. Return how many.

        Running jobs continue, and so do jobs enqueued after the call. `on_progress` is called with the
        number of jobs cancelled so far.
        """
        check_name(queue, "queue")
        return await self._session.run(self._purge(queue, _task(task), on_progress))

    async def move(
        self,
        queue: str,
        to: str,
        *,
        task: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Move the jobs that wait in a queue to another one. Return how many.

        Each keeps its state, its time, its priority and its keys. Ready jobs go to the end of the new
        queue. `on_progress` is called with the number of jobs moved so far.
        """
        check_move(queue, to)
        return await self._session.run(self._move(queue, to, _task(task), on_progress))

    async def drain(
        self,
        queue: str,
        *,
        reason: str | None = None,
        actor: str | None = None,
        timeout: Duration | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Pause a queue and wait until none of its jobs runs. Return how many still run: 0, if drained.

        The queue stays paused, also after `timeout`. `on_progress` is called with the number of running
        jobs at each check.
        """
        watch = _Drain(timeout, on_progress)
        await self.pause(queue, reason=reason, actor=actor)
        while True:
            running = await self._session.run(bulk.busy(queue))
            rest = watch.look(running)
            if rest is None:
                return watch.running
            await asyncio.sleep(rest)

    # -- sync: generated by scripts/sync from the async methods; do not edit --

    def list_sync(self) -> builtins.list[QueueInfo]:
        """Sync version of `list`.

        Return every queue that has jobs, a pause or limits.
        """
        return self._session.run_sync(inspect.queues(self._session.clock.now()))

    @overload
    def metrics_sync(self) -> builtins.list[QueueMetrics]: ...

    @overload
    def metrics_sync(self, queue: str) -> QueueMetrics: ...

    def metrics_sync(self, queue: str | None = None) -> builtins.list[QueueMetrics] | QueueMetrics:
        """Sync version of `metrics`.

        Return the live jobs of a queue and how its jobs ended; without a name, of all queues.
        """
        found = self._session.run_sync(self._metrics(queue))
        return found if queue is None else found[0]

    def pause_sync(
        self,
        queue: str,
        *,
        reason: str | None = None,
        actor: str | None = None,
        until: Until = None,
    ) -> None:
        """Sync version of `pause`.

        Stop claims from a queue. Running jobs continue.
        """
        self._controls.pause_sync(queue=queue, reason=reason, actor=actor, until=until)

    def resume_sync(self, queue: str) -> bool:
        """Sync version of `resume`.

        End the pause of a queue. Return false if it was not paused.
        """
        return self._controls.resume_sync(queue=queue)

    def limit_sync(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        actor: str | None = None,
    ) -> None:
        """Sync version of `limit`.

        Limit how many jobs of a queue run at once, and how many start in a time, fleet-wide.
        """
        self._controls.limit_sync(
            queue=queue, concurrency=concurrency, rate=rate, burst=burst, actor=actor
        )

    def waiting_sync(self, queue: str, *, task: str | None = None) -> builtins.list[WaitingCount]:
        """Sync version of `waiting`.

        Count the jobs that wait in a queue, by task and state: those `purge` and `move` change.
        """
        check_name(queue, "queue")
        return self._session.run_sync(bulk.waiting(queue, _task(task)))

    def purge_sync(
        self, queue: str, *, task: str | None = None, on_progress: OnProgress | None = None
    ) -> int:
        """Sync version of `purge`.

        Cancel the jobs that wait in a queue, of all tasks or of one. Return how many.
        """
        check_name(queue, "queue")
        return self._session.run_sync(self._purge(queue, _task(task), on_progress))

    def move_sync(
        self,
        queue: str,
        to: str,
        *,
        task: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Sync version of `move`.

        Move the jobs that wait in a queue to another one. Return how many.
        """
        check_move(queue, to)
        return self._session.run_sync(self._move(queue, to, _task(task), on_progress))

    def drain_sync(
        self,
        queue: str,
        *,
        reason: str | None = None,
        actor: str | None = None,
        timeout: Duration | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Sync version of `drain`.

        Pause a queue and wait until none of its jobs runs. Return how many still run: 0, if
        drained.
        """
        watch = _Drain(timeout, on_progress)
        self.pause_sync(queue, reason=reason, actor=actor)
        while True:
            running = self._session.run_sync(bulk.busy(queue))
            rest = watch.look(running)
            if rest is None:
                return watch.running
            time.sleep(rest)

    # -- end of the generated methods --

    def _metrics(self, queue: str | None) -> Statement[builtins.list[QueueMetrics]]:
        if queue is not None:
            check_name(queue, "queue")
        return inspect.metrics(queue, self._session.clock.now())

    def _purge(self, queue: str, task: str | None, on_progress: OnProgress | None) -> Script[int]:
        session = self._session
        change = bulk.purge(session.target, queue, task, session.clock.now())
        return (yield from bulk.throughout(change, on_progress))

    def _move(
        self, queue: str, to: str, task: str | None, on_progress: OnProgress | None
    ) -> Script[int]:
        session = self._session
        change = bulk.transfer(session.target, queue, to, task, session.clock.now())
        return (yield from bulk.throughout(change, on_progress))


def check_move(queue: str, to: str) -> None:
    """Raise ConfigError if jobs cannot move from one queue to the other."""
    if check_name(queue, "queue") == check_name(to, "queue"):
        raise ConfigError(f"the jobs are in queue {queue!r} already; name another queue")


def _task(name: str | None) -> str | None:
    if not isinstance(name, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"task {name!r} must be text: the name of a task")
    return name


class _Drain:
    """Decides how long to wait for the running jobs of a queue."""

    def __init__(self, timeout: Duration | None, on_progress: OnProgress | None) -> None:
        limit = optional_seconds(timeout, name="timeout")
        self._until = None if limit is None else monotonic() + limit
        self._on_progress = on_progress
        self._tries = 0
        self._calm = False
        self.running = 0

    def look(self, running: int) -> float | None:
        """Return the seconds until the next check; None if the queue is drained or the time is up."""
        # A claim that was under way when the queue was paused shows up a moment later: hence twice.
        if self._calm and not running:
            return None
        self._calm, self.running = not running, running
        self._tries += 1
        if self._on_progress is not None:
            self._on_progress(running)
        rest = poll_after(False, self._tries)
        if self._until is None or self._calm:
            return rest
        left = self._until - monotonic()
        return None if left <= 0 else min(left, rest)
