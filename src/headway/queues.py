"""`hw.queues`: looking at queues, pausing and resuming them."""

from __future__ import annotations

import builtins

from headway.core.config import check_name
from headway.session import Session
from headway.store import fleet, inspect
from headway.store.rows import QueueRow


class Queues:
    """The queues of one app's schema; effects are fleet-wide and immediate."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> builtins.list[QueueRow]:
        """Every queue with jobs or settings."""
        return await self._session.client.run(inspect.queues(self._session.clock.now()))

    def list_sync(self) -> builtins.list[QueueRow]:
        """As `list`."""
        return self._session.client.run_sync(inspect.queues(self._session.clock.now()))

    async def pause(self, queue: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Stops claims from a queue; running jobs go on."""
        check_name(queue, "queue")
        await self._session.client.run(fleet.pause(queue, by, reason, self._session.clock.now()))

    def pause_sync(self, queue: str, *, reason: str | None = None, by: str | None = None) -> None:
        """As `pause`."""
        check_name(queue, "queue")
        self._session.client.run_sync(fleet.pause(queue, by, reason, self._session.clock.now()))

    async def resume(self, queue: str) -> bool:
        """Opens a paused queue; false if it was not paused."""
        return await self._session.client.run(fleet.resume(self._session.target, queue))

    def resume_sync(self, queue: str) -> bool:
        """As `resume`."""
        return self._session.client.run_sync(fleet.resume(self._session.target, queue))
