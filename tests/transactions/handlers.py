"""Handlers in a transaction, on the loop or in a thread: each writes a row and does what a test says.

`then` is a plain function in both, so that a test is written once for both kinds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from headway import Context, Headway, Retry

KINDS = ["async", "thread"]
AT_ONCE = Retry(max_attempts=3, backoff="constant", base=0, jitter=0)
ONCE = Retry(max_attempts=1)
WRITE = "insert into effects.effect (job_id, attempt, note) values (%s, %s, %s)"
"""The statement by which a handler has an effect."""


@dataclass
class Gate:
    """Where a handler waits, in the middle of its transaction."""

    began: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)

    async def wait(self) -> None:
        self.began.set()
        while not self.open.is_set():
            await asyncio.sleep(0.005)

    def wait_sync(self) -> None:
        self.began.set()
        while not self.open.wait(0.005):
            pass


def function(
    kind: str,
    then: Callable[[Context], Any] = lambda ctx: None,
    gate: Gate | None = None,
) -> Callable[..., Any]:
    """A handler that writes a row, waits at the gate if there is one, and goes on with `then`."""

    async def on_the_loop(ctx: Context, note: str = "") -> Any:
        await ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, note))
        if gate is not None:
            await gate.wait()
        return then(ctx)

    def in_a_thread(ctx: Context, note: str = "") -> Any:
        ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, note))
        if gate is not None:
            gate.wait_sync()
        return then(ctx)

    return on_the_loop if kind == "async" else in_a_thread


def task(
    hw: Headway,
    kind: str,
    then: Callable[[Context], Any] = lambda ctx: None,
    gate: Gate | None = None,
    **options: Any,
) -> Any:
    """The same as a task named "pay"."""
    options = {"name": "pay", "transaction": True, "retry": AT_ONCE} | options
    return hw.task(**options)(function(kind, then, gate))


def effects(db: psycopg.Connection[Any]) -> list[tuple[int, str]]:
    """Every effect that was committed: the attempt it is of, and its note."""
    return db.execute("select attempt, note from effect order by attempt, note").fetchall()


def on_first(do: Callable[[Context], Any]) -> Callable[[Context], Any]:
    """For `then`: on the first attempt only."""
    return lambda ctx: do(ctx) if ctx.attempt == 1 else None


def fail(ctx: Context) -> None:
    """For `then`."""
    raise RuntimeError("not yet")


async def errors(job: Any) -> list[tuple[int, str]]:
    """Return the failed attempts: number and type of the error."""
    return [(a.attempt, a.error["type"]) for a in await job.attempts()]
