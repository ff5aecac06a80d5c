"""Listening for ready jobs of a queue, for consumers that are not workers."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from headway.engine.notify.listener import ListenerService
from headway.store.connections.connect import Target
from headway.store.connections.listen import Hearing


class ReadyListener(ListenerService):
    """Wakes consumers when their queue may have ready jobs."""

    def __init__(self, target: Target, channel: str | None, hearing: Hearing | None = None) -> None:
        super().__init__(target, channel, hearing)
        self._consumers: dict[asyncio.Event, str] = {}

    @contextmanager
    def of(self, queue: str) -> Generator[asyncio.Event, None, None]:
        """Yield an event that is set when a queue may have ready jobs. Clear it before each claim."""
        news = asyncio.Event()
        self._consumers[news] = queue
        try:
            yield news
        finally:
            del self._consumers[news]

    @staticmethod
    async def wait(news: asyncio.Event, most: float) -> None:
        """Return when there is news, or after `most` seconds."""
        timer = asyncio.get_running_loop().call_later(most, news.set)
        try:
            await news.wait()
        finally:
            timer.cancel()

    def notified(self, payload: str) -> None:
        for news, queue in self._consumers.items():
            if concerns(payload, queue):
                news.set()

    def wake_all(self) -> None:
        for news in self._consumers:
            news.set()


def concerns(payload: str, queue: str) -> bool:
    """Return whether a notification means that a queue may have jobs to claim.

    >>> concerns("ready 5,0 mail", "mail"), concerns("ready 0 other", "mail")
    (True, False)
    """
    word, _, rest = payload.partition(" ")
    if word == "ready":
        return rest.partition(" ")[2] == queue
    # Room under the limit of a task may be in any queue. Polling is enough for that.
    return word == "control" or payload == f"open queue {queue}"
