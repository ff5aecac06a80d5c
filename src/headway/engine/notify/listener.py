"""Listening for callers that wait: one connection for all callers on an event loop."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import suppress

from headway.engine.service import Service
from headway.store.connections.connect import Target
from headway.store.connections.listen import Hearing, Listener, NotificationsBlocked


class ListenerService(Service):
    """Listens on a channel for as long as it can. Callers poll while no notifications arrive."""

    waits_long = True

    def __init__(self, target: Target, channel: str | None, hearing: Hearing | None = None) -> None:
        super().__init__()
        self._hearing = Hearing() if hearing is None else hearing
        self._listener = Listener(target, channel) if channel else None
        self._tried = asyncio.Event()
        self._hears = False

    @property
    def hears(self) -> bool:
        """Whether notifications arrive now."""
        return self._hears

    async def ready(self, within: float | None = None) -> None:
        """Return once it is known whether notifications arrive, or after `within` seconds."""
        if self._listener is not None and not self._tried.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._tried.wait()

    @abstractmethod
    def notified(self, payload: str) -> None:
        """Wake the callers that wait for this notification."""

    @abstractmethod
    def wake_all(self) -> None:
        """Wake all callers: they may have missed notifications."""

    async def turn(self) -> float | None:
        if self._listener is None:
            return None
        if blocked_for := self._hearing.blocked_for:
            self._tried.set()
            return blocked_for
        try:
            await self._listener.open()
            self.track.works()
            self._hears = True
            self._hearing.prove(True)
            self._tried.set()
            self.wake_all()
            async for payload in self._listener.heard():
                self.notified(payload)
            return 0
        except NotificationsBlocked:
            self._hearing.prove(False)
            return self._hearing.blocked_for
        finally:
            self._hears = False
            self._tried.set()
            self.wake_all()
            await self._listener.close()
