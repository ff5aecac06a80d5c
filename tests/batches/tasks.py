"""The app that worker processes of these tests run; its schema comes from $TEST_SCHEMA."""

from __future__ import annotations

import asyncio
import os

from headway import Batch, Context, Headway, Retry


async def double(contexts: list[Context], numbers: list[int]) -> list[int]:
    """Says that it was called; with $STUCK, it never returns."""
    if os.environ.get("STUCK"):
        for context in contexts:
            await context.progress(50, f"{len(numbers)} in one call")
        await asyncio.Event().wait()
    return [number * 2 for number in numbers]


def register(hw: Headway) -> Headway:
    """The same task on any app: the workers', and the tests' own."""
    retry = Retry(max_attempts=5, backoff="constant", base=0, jitter=0)
    hw.task(batch=Batch(size=10, wait="50ms"), retry=retry)(double)
    return hw


hw = register(Headway(schema=os.environ.get("TEST_SCHEMA", "headway")))
