"""Tasks for worker processes. Files tell them what must happen first."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from headway import Context, Headway, Retry

hw = Headway(schema=os.environ.get("TEST_SCHEMA", "headway"))


@hw.task
async def add(a: int, b: int) -> int:
    return a + b


@hw.task(queue="mail")
async def mail(to: str) -> str:
    return f"sent to {to}"


@hw.task
async def hold(ctx: Context, place: str) -> str:
    """Says that it began, and by which process; ends when it is let go."""
    Path(place, f"began-{ctx.job_id}").write_text(str(os.getpid()))
    while not Path(place, "let-go").exists():
        await asyncio.sleep(0.01)
    return "let go"


@hw.task
def stubborn(place: str) -> None:
    """A thread that hears nothing."""
    Path(place, "began-stubborn").touch()
    time.sleep(600)


@hw.task(retry=Retry(max_attempts=2, base="10ms"))
async def fail(ctx: Context, why: str) -> None:
    ctx.logger.info("about to fail", extra={"colour": "red"})
    raise ValueError(why)


@hw.task(executor="process")
def square(n: int) -> int:
    logging.getLogger("shop").warning("squaring %d", n)
    return n * n


@hw.task(unique=lambda day: f"day-{day}")
async def daily(day: str) -> None: ...
