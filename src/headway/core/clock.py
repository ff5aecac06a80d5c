"""The only reader of time.

The database's clock decides everything durable (G10): statements say `coalesce(%(now)s, now())`, and
production passes null. Tests pass a moment of their own. The local clocks below measure durations and
supply times that people read. Nothing durable depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

monotonic = time.monotonic
"""Seconds that never go back, for durations within this process."""

process_cpu = time.process_time
"""Seconds of CPU that this process has used, all its threads together."""

thread_cpu = time.thread_time
"""Seconds of CPU that the calling thread has used."""


def unix_milliseconds() -> int:
    """Return wall-clock milliseconds, for the time part of an id."""
    return time.time_ns() // 1_000_000


def wall() -> datetime:
    """Return this machine's time. People read it; nothing durable is decided by it."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Clock:
    """The value of `now` in statements: None in production, a moment in tests."""

    fixed: datetime | None = None
    _moved: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]], repr=False)

    _agreed_at: datetime | None = None
    """This machine's time when a clock that follows it last agreed with it, but for its moves."""

    @classmethod
    def standing(cls) -> Clock:
        """Return a clock that stands at this machine's time, until it is moved or has to catch up."""
        now = wall()
        return cls(now, _agreed_at=now)

    def now(self) -> datetime | None:
        return self.fixed

    def catch_up(self) -> None:
        """Move a standing clock by the time that has passed. Its caller has read this machine's time."""
        if self.fixed is not None and self._agreed_at is not None:
            passed, self._agreed_at = wall() - self._agreed_at, wall()
            self.move_to(self.fixed + passed)

    def read(self) -> datetime:
        """Return the time for people and handlers: the fixed moment, else this machine's time."""
        return self.fixed or wall()

    def after(self, seconds: float) -> datetime | None:
        """Return the moment in `seconds` from now on a fixed clock, and None in production."""
        return None if self.fixed is None else self.fixed + timedelta(seconds=seconds)

    def advance(self, by: timedelta) -> None:
        """Move a fixed clock forward. A clock that is not fixed starts at this machine's time."""
        self.move_to(self.read() + by)

    def move_to(self, moment: datetime) -> None:
        """Set a fixed clock to a moment, and tell the workers that run by it."""
        self.fixed = moment
        for moved in list(self._moved):
            moved()

    def on_move(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Call `moved` after each move, from whichever thread moves the clock. Return how to end that."""
        self._moved.append(moved)
        return lambda: self._moved.remove(moved)
