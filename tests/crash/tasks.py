"""The app that worker processes of these tests run; its schema comes from $TEST_SCHEMA.

Handlers tell what they do in the table `seen`, through a connection of their own that no proxy
stands in ($SIDE_DSN), by the database's clock. Where one has to wait it waits for a file in $GATES.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from headway import Context, Fatal, Headway, Retry
from tests.crash import skew
from tests.crash.runs import next_run, worker_pid

_INSERT = sql.SQL("insert into {}.seen (job_id, run, pid, what) values (%s, %s, %s, %s)")


async def echo(n: int) -> int:
    """As short as a job can be."""
    return n


async def pause(n: int, seconds: float = 0.01) -> int:
    """Long enough that some of these run at any moment."""
    await asyncio.sleep(seconds)
    return n


async def clock() -> float:
    """This process's idea of the time."""
    return time.time()


async def witness(ctx: Context, n: int = 0) -> int:
    """Says that it began, returns its process."""
    async with await _side() as side:
        await _tell(side, ctx, next_run(ctx), "began")
    return worker_pid()


async def hold(ctx: Context, gate: str) -> int:
    """Runs until the gate of this run is opened; says how it began and ended."""
    run = next_run(ctx)
    async with await _side() as side:
        try:
            await _tell(side, ctx, run, "began")
            await _opened(f"{gate}-{run}")
        except asyncio.CancelledError:
            await _tell(side, ctx, run, "stopped")
            raise
        await _tell(side, ctx, run, "ended")
    return worker_pid()


async def linger(ctx: Context, gate: str) -> int:
    """As `hold`, but once told to stop it takes its time: until the gate `stop` is opened."""
    run = next_run(ctx)
    async with await _side() as side:
        try:
            await _tell(side, ctx, run, "began")
            await _opened(f"{gate}-{run}")
        except asyncio.CancelledError:
            await _tell(side, ctx, run, "stopping")
            await _opened("stop")
            await _tell(side, ctx, run, "stopped")
            raise
        await _tell(side, ctx, run, "ended")
    return worker_pid()


def block(ctx: Context, seconds: float) -> int:
    """A thread in a call that nothing interrupts."""
    _tell_sync(ctx, next_run(ctx), "began")
    time.sleep(seconds)
    return worker_pid()


def alone(ctx: Context, gate: str) -> int:
    """In a process of its own: fails for good if another process is still at the same job."""
    with Path(os.environ["GATES"], "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Fatal("it runs twice") from None
        run = next_run(ctx)
        _tell_sync(ctx, run, "began")
        while not Path(os.environ["GATES"], f"{gate}-{run}").exists():
            time.sleep(0.02)
        return worker_pid()


_alone = alone


async def die(how: str) -> None:
    """Takes its whole process along."""
    if how == "exit":
        os._exit(1)
    os.kill(os.getpid(), signal.SIGKILL)


async def flaky(ctx: Context, n: int) -> int:
    """Fails the first time."""
    if ctx.attempt == 1:
        raise RuntimeError("not yet")
    return n


async def unstorable(n: int) -> str:
    """PostgreSQL cannot keep this character."""
    return f"\0{n}"


def register(hw: Headway) -> Headway:
    """The same tasks on any app: the workers', and the tests' own."""
    fast = Retry(max_attempts=3, backoff="constant", base="50ms", jitter=0)
    hw.task(retry=Retry(max_attempts=50))(echo)
    hw.task(retry=Retry(max_attempts=50))(pause)
    hw.task(retry=fast)(clock)
    hw.task(retry=fast)(witness)
    hw.task(retry=fast)(hold)
    hw.task(retry=fast)(linger)
    hw.task(retry=fast)(block)
    hw.task(retry=fast, executor="process")(_alone)
    hw.task(retry=fast)(die)
    hw.task(retry=fast)(flaky)
    hw.task(retry=fast)(unstorable)
    return hw


async def _side() -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(os.environ["SIDE_DSN"], autocommit=True)


async def _tell(side: psycopg.AsyncConnection[Any], ctx: Context, run: int, what: str) -> None:
    await side.execute(_insert(), (ctx.job_id, run, worker_pid(), what))


def _tell_sync(ctx: Context, run: int, what: str) -> None:
    with psycopg.connect(os.environ["SIDE_DSN"], autocommit=True) as conn:
        conn.execute(_insert(), (ctx.job_id, run, worker_pid(), what))


def _insert() -> Any:
    return _INSERT.format(sql.Identifier(os.environ["TEST_SCHEMA"]))


async def _opened(gate: str) -> None:
    path = Path(os.environ["GATES"], gate)
    while not path.exists():
        await asyncio.sleep(0.02)


skew.apply()
hw = register(Headway(schema=os.environ.get("TEST_SCHEMA", "headway")))
alone = hw.tasks["alone"]  # where the processes of its jobs look for it
