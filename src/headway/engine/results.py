"""Hearing that jobs ended, for those who wait for results: one listener for all of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from headway.engine.service import Service
from headway.store.connect import Target
from headway.store.listen import Deaf, Listener, patience

_TRY_AGAIN = 60.0


class Results(Service):
    """Wakes those who wait when their job has ended; where nothing can be heard they poll."""

    waits_long = True

    def __init__(self, target: Target, channel: str | None) -> None:
        super().__init__()
        self._listener = Listener(target, channel) if channel else None
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._tried = asyncio.Event()
        self._hears = False

    async def ready(self) -> None:
        """Returns once it is known whether anything can be heard."""
        if self._listener is not None:
            await self._tried.wait()

    async def wait(self, word: str, tries: int, most: float | None) -> None:
        """Returns when `word` (a job's id, or "failed") was heard, or when it is time to look."""
        seconds = patience(self._hears, tries)
        told = asyncio.get_running_loop().create_future()
        self._waiting[word].add(told)
        try:
            await asyncio.wait([told], timeout=seconds if most is None else min(seconds, most))
        finally:
            self._forget(word, told)

    async def turn(self) -> float | None:
        if self._listener is None:
            return None
        try:
            await self._listener.open()
            self._hears = True
            self._tried.set()
            self._tell_all()
            async for payload in self._listener.heard():
                self._tell(payload)
            return 0
        except Deaf:
            return _TRY_AGAIN
        finally:
            self._hears = False
            self._tried.set()
            self._tell_all()
            await self._listener.close()

    def _tell(self, job_id: str) -> None:
        for told in self._waiting.get(job_id, ()):
            if not told.done():
                told.set_result(None)

    def _tell_all(self) -> None:
        for job_id in self._waiting:
            self._tell(job_id)

    def _forget(self, job_id: str, told: asyncio.Future[None]) -> None:
        self._waiting[job_id].discard(told)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
