"""Time that passes only when the driver decides: rests, pauses, the lease, and the database's clock.

The services measure durations by `core.clock.monotonic` and rest by timers of the event loop. Both
are replaced in the modules of the engine, so that a history takes no time and runs the same again.
The driver of PostgreSQL keeps the real clock.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import pytest

import headway.engine.worker  # noqa: F401 - with it all modules of the engine are loaded
from headway.core import clock
from headway.core.clock import Clock, wall

T = TypeVar("T")

_REAL_TIME = ("headway.engine.health.loop_watch", "headway.engine.health.loop_block")
"""These watch the real event loop."""
_TIMERS = ("headway.engine.service", "headway.engine.heartbeat")
"""These set timers: when a rest ends, and when the lease does."""


class Timer:
    """A call at a moment, unless it is cancelled before."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call

    @property
    def cancelled(self) -> bool:
        return self._call is None

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Timeline:
    """The clock of the worker and of the database, and all timers of the services."""

    def __init__(self, database: Clock) -> None:
        """`database` is the clock that statements are given the moment of."""
        self._now = 1_000.0
        self._database = database
        self._database.fixed = wall()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire the timers that are due then."""
        self._now += seconds
        self._database.advance(timedelta(seconds=seconds))
        while self._timers and self._timers[0][0] <= self._now:
            heapq.heappop(self._timers)[2].fire()

    def until_next(self) -> float:
        """Return the seconds until a timer is due."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        assert self._timers, "nobody waits for any moment"
        return max(0.0, self._timers[0][0] - self._now)

    def call_later(self, seconds: float, call: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(lambda: call(*args))
        heapq.heappush(self._timers, (self._now + seconds, next(self._numbers), timer))
        return timer

    async def wait_for(self, fact: Awaitable[T], seconds: float) -> T:
        """As `asyncio.wait_for`, in this time."""
        late = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: late.done() or late.set_result(None))
        waiting = asyncio.ensure_future(fact)
        try:
            await asyncio.wait((waiting, late), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            raise TimeoutError
        finally:
            timer.cancel()
            waiting.cancel()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Take the place of the real clock and of real timers."""
        for name, module in list(sys.modules.items()):
            theirs = name.startswith("headway.engine.") and name not in _REAL_TIME
            if theirs and vars(module).get("monotonic") is clock.monotonic:
                patch.setattr(module, "monotonic", self.monotonic)
        for name in _TIMERS:
            patch.setattr(sys.modules[name], "asyncio", _Asyncio(self))


class _Asyncio:
    """The module `asyncio`, with timers of a timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.wait_for = timeline.wait_for
        self.call_later = timeline.call_later

    def get_running_loop(self) -> _Asyncio:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)
