"""Waiting until a queue may have something to claim: on an event loop, or in a thread."""

from __future__ import annotations

import asyncio

from headway.engine.notify.ready import ReadyListener, concerns
from headway.store.connections.listen import SyncListener


class Arrivals:
    """The news of one queue, for one consumer on an event loop."""

    def __init__(self, listener: ReadyListener, news: asyncio.Event) -> None:
        self._listener = listener
        self._news = news

    @property
    def hears(self) -> bool:
        """Whether notifications arrive."""
        return self._listener.hears

    def clear(self) -> None:
        """Forget the news so far. A consumer that clears before it claims misses nothing."""
        self._news.clear()

    async def wait(self, seconds: float) -> None:
        """Return when there is news, or after this long."""
        await self._listener.wait(self._news, seconds)


class ThreadArrivals:
    """The news of one queue, for one consumer in a thread."""

    def __init__(self, listener: SyncListener, queue: str) -> None:
        self._listener = listener
        self._queue = queue

    @property
    def hears(self) -> bool:
        """Whether notifications arrive."""
        return self._listener.hears

    def clear(self) -> None:
        """Do nothing: notifications wait in the connection until `wait_sync` reads them."""

    def wait_sync(self, seconds: float) -> None:
        """Return when there is news, or after this long."""
        self._listener.wait_until(lambda said: concerns(said, self._queue), seconds)
