"""Listening for the end of jobs, for callers that wait for results."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from headway.engine.notify.listener import ListenerService
from headway.store.connections.connect import Target
from headway.store.connections.listen import Hearing, poll_after


class ResultListener(ListenerService):
    """Wakes callers when their job has ended. They poll while no notifications arrive."""

    def __init__(self, target: Target, channel: str | None, hearing: Hearing | None = None) -> None:
        super().__init__(target, channel, hearing)
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)

    async def wait(self, word: str, tries: int, most: float | None) -> None:
        """Return when `word` (a job's id, or "failed") was notified, or when it is time to poll."""
        seconds = poll_after(self.hears, tries)
        woken = asyncio.get_running_loop().create_future()
        self._waiting[word].add(woken)
        try:
            await asyncio.wait([woken], timeout=seconds if most is None else min(seconds, most))
        finally:
            self._forget(word, woken)

    def notified(self, payload: str) -> None:
        for woken in self._waiting.get(payload, ()):
            if not woken.done():
                woken.set_result(None)

    def wake_all(self) -> None:
        for job_id in self._waiting:
            self.notified(job_id)

    def _forget(self, job_id: str, woken: asyncio.Future[None]) -> None:
        self._waiting[job_id].discard(woken)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
