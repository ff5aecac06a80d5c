"""A wall clock that is wrong by $CLOCK_SKEW seconds, in this process.

Set where the library reads it (`headway.core.clock`) and where user code would (`time.time`). The
monotonic clock is left alone, as it is when an administrator or NTP sets a machine's clock.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any

from headway.core import clock


def apply() -> None:
    """Sets this process's clock wrong, if it is to be."""
    seconds = float(os.environ.get("CLOCK_SKEW", 0))
    if not seconds:
        return
    true_time, true_time_ns = time.time, time.time_ns

    class Skewed(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(seconds=seconds)

    time.time = lambda: true_time() + seconds
    time.time_ns = lambda: true_time_ns() + int(seconds * 1e9)
    clock.datetime = Skewed  # type: ignore[misc]
    clock.time = SimpleNamespace(time_ns=time.time_ns, monotonic=time.monotonic)  # type: ignore[assignment]
