"""One value for each event loop, closed with its loop.

An app may see several loops, one after the other (tests, `asyncio.run` called twice) or in parallel (in
threads). A value refers to its loop through tasks and timers, so a weak reference to the loop would not
prevent a leak. Instead, the end of the loop closes the value: `asyncio.run` closes the asynchronous
generators of a loop, and each value has one. A loop that was closed without that is noticed at the next
use.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Values by their event loop."""

    def __init__(self, close: Callable[[T], Awaitable[None]], drop: Callable[[T], None]) -> None:
        """`close` ends a value on its loop. `drop` ends one from elsewhere: its loop
        is closed, or may be."""
        self._close = close
        self._drop = drop
        self._kept: dict[asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None, None]]] = {}

    @property
    def loops(self) -> int:
        """How many loops have a value."""
        return len(self._kept)

    def get(self) -> T | None:
        """Return the value of the running loop, if there is one."""
        kept = self._kept.get(asyncio.get_running_loop())
        return None if kept is None else kept[0]

    async def put(self, value: T) -> T:
        """Keep a value for the running loop until `close`, or until the loop ends."""
        loop = asyncio.get_running_loop()
        for ended in [other for other in list(self._kept) if other.is_closed()]:
            if (kept := self._kept.pop(ended, None)) is not None:
                self._drop(kept[0])
        guard = self._guard(loop, value)
        self._kept[loop] = value, guard
        await anext(guard)
        return value

    async def close(self) -> None:
        """Close the value of the running loop."""
        if (kept := self._kept.pop(asyncio.get_running_loop(), None)) is not None:
            await kept[1].aclose()

    def drop_all(self) -> None:
        """Drop the values of all loops, from any thread. Their loops may still run."""
        for kept in list(self._kept.values()):
            self._drop(kept[0])

    async def _guard(self, loop: asyncio.AbstractEventLoop, value: T) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if (kept := self._kept.get(loop)) is not None and kept[0] is value:
                del self._kept[loop]
            await self._close(value)
