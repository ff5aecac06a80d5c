"""The app that worker processes of these tests run; its schema comes from $TEST_SCHEMA."""

from __future__ import annotations

import asyncio
import os

from headway import Headway, Key, Retry
from tests.keys.told import Told

SOON = Retry(max_attempts=3, backoff="constant", base="20ms", jitter=0)


async def work(key: str, n: int) -> int:
    """At most two of a key at once."""
    async with _told().running(key, n):
        await asyncio.sleep(0.005)
    return os.getpid()


async def stand(key: str, n: int) -> None:
    """One after another. The first one never ends in the first process that runs it."""
    await _hang_at_first(key, n)


async def stand_once(key: str, n: int) -> None:
    """The same, and one crash fails it."""
    await _hang_at_first(key, n)


async def _hang_at_first(key: str, n: int) -> None:
    first = n == 0 and not await _told().has_begun(key, n)
    async with _told().running(key, n):
        if first:
            await asyncio.Event().wait()


def _told() -> Told:
    return Told(None, os.environ["HEADWAY_DATABASE_URL"])


def register(hw: Headway) -> Headway:
    """The same tasks on any app: the workers', and the tests' own."""
    hw.task(concurrency_key=Key(lambda key, **_: key, limit=2))(work)
    in_order = Key(lambda key, **_: key, ordered=True)
    hw.task(concurrency_key=in_order, retry=SOON)(stand)
    hw.task(concurrency_key=in_order, retry=Retry(max_crashes=1))(stand_once)
    return hw


hw = register(Headway(schema=os.environ.get("TEST_SCHEMA", "headway")))
