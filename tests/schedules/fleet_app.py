"""The app of worker processes that fire schedules; its schema comes from $TEST_SCHEMA.

Its task says which process ran it, and what time that process thinks it is.
"""

from __future__ import annotations

import os
import time

from headway import Headway, Retry
from headway.core.schedule import Scheduled


async def _report() -> tuple[int, float]:
    return os.getpid(), time.time()


def register(hw: Headway, schedule: Scheduled | None = None) -> Headway:
    """The same task on any app, with what is declared of it."""
    # A worker that is killed takes its jobs along.
    patient = Retry(max_attempts=100, max_crashes=100, base=0)
    hw.task(name="report", schedule=schedule, keep="1000d", retry=patient)(_report)
    return hw


hw = register(Headway(schema=os.environ.get("TEST_SCHEMA", "headway")))
