"""The only reader of time.

Everything durable is decided by the database's clock (G10): statements say
`coalesce(%(now)s, now())` and production passes null. Tests pass a moment of their own. The local
clocks below measure durations and fill in what is shown to people; nothing durable hangs on them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

monotonic = time.monotonic
"""Seconds that only grow; for durations within this process."""


def unix_milliseconds() -> int:
    """Wall-clock milliseconds, for the time part of an id."""
    return time.time_ns() // 1_000_000


def wall() -> datetime:
    """This machine's idea of now; for people to read, never to decide by."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Clock:
    """What statements are given as `now`: nothing in production, a moment in tests."""

    fixed: datetime | None = None

    def now(self) -> datetime | None:
        return self.fixed

    def advance(self, by: timedelta) -> None:
        """Move a fixed clock on; a clock that follows the database starts from this machine's."""
        self.fixed = (self.fixed or wall()) + by
