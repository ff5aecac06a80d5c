"""The app that worker processes of these tests run; its schema comes from $TEST_SCHEMA."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from headway import Headway, Limit, Retry

AGAIN = Retry(max_attempts=1_000, backoff="constant", base="10ms", jitter=0)
IN_QUEUE, OF_TASK, OF_KEY = 12, 5, 2
RATE, BURST = 20, 3


async def wide(n: int) -> None:
    """Under the limit of its queue only."""
    await _work(n)


async def narrow(n: int) -> None:
    """Under a limit of its own, too."""
    await _work(n)


async def keyed(key: str, n: int) -> None:
    """Under one for each key, too."""
    await _work(n)


async def rated(key: str, n: int) -> None:
    """A number of jobs of each key in a time."""
    await _work(n)


async def _work(n: int) -> None:
    """Stands until the gate is open; then every seventh fails when it is first tried."""
    gate = Path(os.environ["GATE"])
    while not gate.exists():
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.002)
    token = gate.with_name(f"failed-{n}")
    if n % 7 == 0 and not token.exists():
        token.touch()
        raise RuntimeError("once")


def register(hw: Headway) -> Headway:
    """The same tasks on any app: the workers', and the tests' own."""
    hw.task(queue="all", retry=AGAIN)(wide)
    hw.task(queue="all", retry=AGAIN, limit=Limit(concurrency=OF_TASK))(narrow)
    by_key = Limit(key=lambda key, **_: key, concurrency=OF_KEY)
    hw.task(queue="all", retry=AGAIN, limit=by_key)(keyed)
    by_rate = Limit(key=lambda key, **_: key, rate=f"{RATE}/s", burst=BURST)
    hw.task(queue="rated", retry=AGAIN, limit=by_rate)(rated)
    return hw


hw = register(Headway(schema=os.environ.get("TEST_SCHEMA", "headway")))


@hw.task(executor="process", limit=Limit(concurrency=2))
def cube(n: int) -> int:
    return n**3
