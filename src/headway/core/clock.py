"""The only reader of time.

The database's clock decides everything durable (G10): statements say `coalesce(%(now)s, now())`, and
production passes null. Tests pass a moment of their own. The local clocks below measure durations and
supply times that people read. Nothing durable depends on them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
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

    def now(self) -> datetime | None:
        return self.fixed

    def advance(self, by: timedelta) -> None:
        """Move a fixed clock forward. A clock that is not fixed starts at this machine's time."""
        self.fixed = (self.fixed or wall()) + by
