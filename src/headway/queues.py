"""`hw.queues`: looking at queues, pausing and resuming them."""

from __future__ import annotations

import builtins

from headway.controls import Controls, Until
from headway.queue_changes import QueueChanges
from headway.session import Session
from headway.store import inspect
from headway.store.rows import QueueRow


class Queues(QueueChanges):
    """The queues of one app's schema; effects are fleet-wide and immediate."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._controls = Controls(session)

    async def list(self) -> builtins.list[QueueRow]:
        """Every queue with jobs or settings."""
        return await (await self._session.ready_client()).run(
            inspect.queues(self._session.clock.now())
        )

    def list_sync(self) -> builtins.list[QueueRow]:
        """As `list`."""
        return self._session.client.run_sync(inspect.queues(self._session.clock.now()))

    async def pause(
        self,
        queue: str,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until = None,
    ) -> None:
        """Stops claims from a queue; running jobs go on. Until `resume`, a moment, or for so long."""
        await self._controls.pause(queue=queue, reason=reason, by=by, until=until)

    def pause_sync(
        self,
        queue: str,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until = None,
    ) -> None:
        """As `pause`."""
        self._controls.pause_sync(queue=queue, reason=reason, by=by, until=until)

    async def resume(self, queue: str) -> bool:
        """Opens a paused queue; false if it was not paused."""
        return await self._controls.resume(queue=queue)

    def resume_sync(self, queue: str) -> bool:
        """As `resume`."""
        return self._controls.resume_sync(queue=queue)

    async def limit(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        by: str | None = None,
    ) -> None:
        """At most so many of a queue run at once, and start in a time, in the whole fleet; with neither,
        as many as can."""
        limits = self._controls
        await limits.limit(queue=queue, concurrency=concurrency, rate=rate, burst=burst, by=by)

    def limit_sync(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        by: str | None = None,
    ) -> None:
        """As `limit`."""
        limits = self._controls
        limits.limit_sync(queue=queue, concurrency=concurrency, rate=rate, burst=burst, by=by)
