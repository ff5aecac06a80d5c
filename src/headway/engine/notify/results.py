"""Hearing that jobs ended, for those who wait for results."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from headway.engine.notify.listener import Ear
from headway.store.connect import Target
from headway.store.listen import Hearing, patience


class Results(Ear):
    """Wakes those who wait when their job has ended; where nothing can be heard they poll."""

    def __init__(self, target: Target, channel: str | None, hearing: Hearing | None = None) -> None:
        super().__init__(target, channel, hearing)
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)

    async def wait(self, word: str, tries: int, most: float | None) -> None:
        """Returns when `word` (a job's id, or "failed") was heard, or when it is time to look."""
        seconds = patience(self.hears, tries)
        told = asyncio.get_running_loop().create_future()
        self._waiting[word].add(told)
        try:
            await asyncio.wait([told], timeout=seconds if most is None else min(seconds, most))
        finally:
            self._forget(word, told)

    def tell(self, payload: str) -> None:
        for told in self._waiting.get(payload, ()):
            if not told.done():
                told.set_result(None)

    def tell_all(self) -> None:
        for job_id in self._waiting:
            self.tell(job_id)

    def _forget(self, job_id: str, told: asyncio.Future[None]) -> None:
        self._waiting[job_id].discard(told)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
