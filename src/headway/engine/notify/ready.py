"""Hearing that jobs of a queue became ready, for consumers that are no workers."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from headway.engine.notify.listener import Ear
from headway.store.connect import Target
from headway.store.listen import Hearing


class Arrivals(Ear):
    """Wakes consumers when there may be something to claim in their queue."""

    def __init__(self, target: Target, channel: str | None, hearing: Hearing | None = None) -> None:
        super().__init__(target, channel, hearing)
        self._consumers: dict[asyncio.Event, str] = {}

    @contextmanager
    def of(self, queue: str) -> Generator[asyncio.Event, None, None]:
        """Set whenever there may be news of a queue; who clears it before a claim misses nothing."""
        news = asyncio.Event()
        self._consumers[news] = queue
        try:
            yield news
        finally:
            del self._consumers[news]

    @staticmethod
    async def wait(news: asyncio.Event, most: float) -> None:
        """Returns when there is news, or after so many seconds."""
        timer = asyncio.get_running_loop().call_later(most, news.set)
        try:
            await news.wait()
        finally:
            timer.cancel()

    def tell(self, payload: str) -> None:
        for news, queue in self._consumers.items():
            if concerns(payload, queue):
                news.set()

    def tell_all(self) -> None:
        for news in self._consumers:
            news.set()


def concerns(payload: str, queue: str) -> bool:
    """Whether what was said means that there may be something to claim in a queue.

    >>> concerns("ready 5,0 mail", "mail"), concerns("ready 0 other", "mail")
    (True, False)
    """
    word, _, rest = payload.partition(" ")
    if word == "ready":
        return rest.partition(" ")[2] == queue
    # Room under the limit of a task may be in any queue: for that it is enough to look now and then.
    return word == "control" or payload == f"open queue {queue}"
