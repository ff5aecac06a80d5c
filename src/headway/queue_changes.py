"""What `hw.queues` says and does about all jobs of a queue: metrics, purge, move, drain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import overload

from headway.core.clock import monotonic
from headway.core.duration import Duration, optional_seconds
from headway.core.names import check_name
from headway.errors import ConfigError
from headway.session import Session
from headway.store import bulk, controls, inspect
from headway.store.bulk import Parked
from headway.store.listen import patience
from headway.store.rows import QueueMetrics as QueueMetrics
from headway.store.scripts import Script
from headway.store.statement import Statement

Told = Callable[[int], None]
"""Is told how many so far."""


class QueueChanges:
    """The part of `Queues` that is about the jobs in a queue."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @overload
    async def metrics(self) -> list[QueueMetrics]: ...
    @overload
    async def metrics(self, queue: str) -> QueueMetrics: ...
    async def metrics(self, queue: str | None = None) -> list[QueueMetrics] | QueueMetrics:
        """What a queue holds and what came of its jobs; without a name, of all queues.

        >>> (await hw.queues.metrics("mail")).ready         # doctest: +SKIP
        12
        """
        found = await (await self._session.ready_client()).run(self._metrics(queue))
        return found if queue is None else found[0]

    @overload
    def metrics_sync(self) -> list[QueueMetrics]: ...
    @overload
    def metrics_sync(self, queue: str) -> QueueMetrics: ...
    def metrics_sync(self, queue: str | None = None) -> list[QueueMetrics] | QueueMetrics:
        """As `metrics`."""
        found = self._session.client.run_sync(self._metrics(queue))
        return found if queue is None else found[0]

    # -- what waits -------------------------------------------------------------------------------

    async def parked(self, queue: str, *, task: str | None = None) -> list[Parked]:
        """What waits in a queue, by task and state: what `purge` and `move` would be about."""
        return await (await self._session.ready_client()).run(self._parked(queue, task))

    def parked_sync(self, queue: str, *, task: str | None = None) -> list[Parked]:
        """As `parked`."""
        return self._session.client.run_sync(self._parked(queue, task))

    async def purge(self, queue: str, *, task: str | None = None, told: Told | None = None) -> int:
        """Cancels what waits in a queue, of all tasks or of one; how many. Running jobs go on, and so
        does what is enqueued from now on. `told` is called with how many so far."""
        return await (await self._session.ready_client()).play(self._purge(queue, task, told))

    def purge_sync(self, queue: str, *, task: str | None = None, told: Told | None = None) -> int:
        """As `purge`."""
        return self._session.client.play_sync(self._purge(queue, task, told))

    async def move(
        self, queue: str, to: str, *, task: str | None = None, told: Told | None = None
    ) -> int:
        """Has what waits in a queue wait in another; how many. Each keeps its state, its moment, its
        priority and its keys; what is ready goes to the end of its new queue."""
        return await (await self._session.ready_client()).play(self._move(queue, to, task, told))

    def move_sync(
        self, queue: str, to: str, *, task: str | None = None, told: Told | None = None
    ) -> int:
        """As `move`."""
        return self._session.client.play_sync(self._move(queue, to, task, told))

    # -- what runs --------------------------------------------------------------------------------

    async def drain(
        self,
        queue: str,
        *,
        reason: str | None = None,
        by: str | None = None,
        timeout: Duration | None = None,
        told: Told | None = None,
    ) -> int:
        """Pauses a queue and waits until nothing of it runs. How many still run when the time is up:
        0 if it is drained. It stays paused. `told` is called with how many run, as often as it looks."""
        client, watch = await self._session.ready_client(), _Drain(timeout, told)
        await client.run(self._shut(queue, reason, by))
        while True:
            rest = watch.look(await client.run(bulk.busy(queue)))
            if rest is None:
                return watch.running
            await asyncio.sleep(rest)

    def drain_sync(
        self,
        queue: str,
        *,
        reason: str | None = None,
        by: str | None = None,
        timeout: Duration | None = None,
        told: Told | None = None,
    ) -> int:
        """As `drain`."""
        client, watch = self._session.client, _Drain(timeout, told)
        client.run_sync(self._shut(queue, reason, by))
        while True:
            rest = watch.look(client.run_sync(bulk.busy(queue)))
            if rest is None:
                return watch.running
            time.sleep(rest)

    # -- statements -------------------------------------------------------------------------------

    def _metrics(self, queue: str | None) -> Statement[list[QueueMetrics]]:
        if queue is not None:
            check_name(queue, "queue")
        return inspect.metrics(queue, self._session.clock.now())

    def _parked(self, queue: str, task: str | None) -> Statement[list[Parked]]:
        return bulk.parked(check_name(queue, "queue"), task)

    def _purge(self, queue: str, task: str | None, told: Told | None) -> Script[int]:
        session = self._session
        check_name(queue, "queue")
        return bulk.throughout(bulk.purge(session.target, queue, task, session.clock.now()), told)

    def _move(self, queue: str, to: str, task: str | None, told: Told | None) -> Script[int]:
        session = self._session
        if check_name(queue, "queue") == check_name(to, "queue"):
            raise ConfigError(f"the jobs of queue {queue!r} are there already; name another queue")
        change = bulk.transfer(session.target, queue, to, task, session.clock.now())
        return bulk.throughout(change, told)

    def _shut(self, queue: str, reason: str | None, by: str | None) -> Statement[datetime]:
        return controls.pause(
            self._session.target,
            "queue",
            check_name(queue, "queue"),
            by=by,
            reason=reason,
            until=None,
            now=self._session.clock.now(),
        )


class _Drain:
    """Looks until nothing runs, or the time is up."""

    def __init__(self, timeout: Duration | None, told: Told | None) -> None:
        limit = optional_seconds(timeout, name="timeout")
        self._until = None if limit is None else monotonic() + limit
        self._told = told
        self._tries = 0
        self._calm = False
        self.running = 0

    def look(self, running: int) -> float | None:
        """How long to wait before looking again; none when there is no more to wait for."""
        # A claim that was under way when the queue was paused shows up a moment later: hence twice.
        if self._calm and not running:
            return None
        self._calm, self.running = not running, running
        self._tries += 1
        if self._told is not None:
            self._told(running)
        rest = patience(False, self._tries)
        if self._until is None or self._calm:
            return rest
        left = self._until - monotonic()
        return None if left <= 0 else min(left, rest)
