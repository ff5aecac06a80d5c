"""Listening on behalf of callers who wait: one connection for all of them on an event loop."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import suppress

from headway.engine.service import Service
from headway.store.connect import Target
from headway.store.listen import Deaf, Hearing, Listener


class Ear(Service):
    """Hears what is said on a channel for as long as it can; where nothing can be heard callers poll."""

    waits_long = True

    def __init__(self, target: Target, channel: str | None, hearing: Hearing | None = None) -> None:
        super().__init__()
        self._hearing = Hearing() if hearing is None else hearing
        self._listener = Listener(target, channel) if channel else None
        self._tried = asyncio.Event()
        self._hears = False

    @property
    def hears(self) -> bool:
        """Whether anything can be heard now."""
        return self._hears

    async def ready(self, within: float | None = None) -> None:
        """Return once it is known whether notifications arrive, or after `within` seconds."""
        if self._listener is not None and not self._tried.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._tried.wait()

    @abstractmethod
    def tell(self, payload: str) -> None:
        """Wakes those who wait for this."""

    @abstractmethod
    def tell_all(self) -> None:
        """Wakes everyone: what was said meanwhile was not heard."""

    async def turn(self) -> float | None:
        if self._listener is None:
            return None
        if deaf_for := self._hearing.deaf_for:
            self._tried.set()
            return deaf_for
        try:
            await self._listener.open()
            self.track.works()
            self._hears = True
            self._hearing.prove(True)
            self._tried.set()
            self.tell_all()
            async for payload in self._listener.heard():
                self.tell(payload)
            return 0
        except Deaf:
            self._hearing.prove(False)
            return self._hearing.deaf_for
        finally:
            self._hears = False
            self._tried.set()
            self.tell_all()
            await self._listener.close()
