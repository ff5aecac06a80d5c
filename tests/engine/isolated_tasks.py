"""Tasks of every kind, at the top of a module, so that an isolated child finds them."""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from headway import Batch, Context, Depends, Fatal, Headway, Retry, Snooze

app = Headway("postgresql://never-used@127.0.0.1:1/none")
RETRY = Retry(max_attempts=3, never=(KeyError,))
WRITE = "insert into effects.effect (job_id, note) values (%s, %s)"


def greeting() -> Iterator[str]:
    yield "hello"


def other_greeting() -> str:
    return "good day"


async def house() -> AsyncIterator[str]:
    yield "house"


async def broken_house() -> AsyncIterator[str]:
    yield "house"
    raise OSError("it fell down")


def end(how: str) -> Any:
    """Return or raise what the test asks for."""
    match how:
        case "error":
            raise ValueError("no") from OSError("cause")
        case "never":
            raise KeyError("no")
        case "fatal":
            raise Fatal("no")
        case "snooze":
            raise Snooze(timedelta(hours=1))
        case "odd snooze":
            raise Snooze("until spring")
        case "exit":
            raise SystemExit(3)
        case "cancelled":
            raise asyncio.CancelledError
        case "nul":
            return "\0"
        case "object":
            return object()
        case "big":
            return "x" * 3_000
        case "number":
            return 10**30
    return how


HOWS = ["ok", "error", "never", "fatal", "snooze", "odd snooze", "exit", "cancelled"]
HOWS += ["nul", "object", "big", "number"]


@app.task(retry=RETRY)
async def on_loop(how: str) -> Any:
    return end(how)


@app.task(retry=RETRY)
def in_thread(how: str) -> Any:
    return end(how)


@app.task(executor="process", retry=RETRY)
def in_process(how: str) -> Any:
    return end(how)


@app.task(batch=Batch(size=10, wait="100ms"), retry=RETRY)
async def together(hows: list[str]) -> list[Any]:
    return [end(how) for how in hows]


@app.task(batch=Batch(size=10, wait="1h"))
async def patient(items: list[int]) -> list[int]:
    return [item + 1 for item in items]


@app.task
async def facts(ctx: Context) -> dict[str, Any]:
    return _facts(ctx)


@app.task
def facts_in_thread(ctx: Context) -> dict[str, Any]:
    return _facts(ctx)


@app.task(executor="process")
def facts_in_process(ctx: Context) -> dict[str, Any]:
    return _facts(ctx)


def _facts(ctx: Context) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "main": threading.current_thread() is threading.main_thread(),
        "job_id": str(ctx.job_id),
        "task": ctx.task,
        "queue": ctx.queue,
        "attempt": ctx.attempt,
        "max_attempts": ctx.max_attempts,
        "headers": dict(ctx.headers),
        "deadline": ctx.deadline,
    }


@app.task
async def greet(
    name: str,
    hello: str = Depends(greeting),
    where: str = Depends(house, scope="worker"),
) -> str:
    return f"{hello} {name} in the {where}"


@app.task
async def collapse(where: str = Depends(broken_house, scope="worker")) -> str:
    return where


@app.task
async def parent(ctx: Context, n: int) -> int:
    await ctx.enqueue(on_loop.using(delay="10m", priority=3, headers={"a": "b"}), how="\\u0000")
    await ctx.enqueue(greet, "ada")
    return n


@app.task
async def unique_parent(ctx: Context, n: int) -> int:
    await ctx.enqueue(greet.using(unique="ada"), "ada")
    return n


@app.task(transaction=True)
async def write(ctx: Context, note: str) -> str:
    await ctx.conn.execute(WRITE, [ctx.job_id, note])
    end(note)
    (row,) = await (await ctx.conn.execute("show application_name")).fetchall()
    return row[0]


@app.task(transaction=True)
def write_in_thread(ctx: Context, note: str) -> str:
    ctx.conn.execute(WRITE, [ctx.job_id, note])
    end(note)
    return note


@app.task(transaction=True)
async def write_and_die(ctx: Context, note: str) -> None:
    await ctx.conn.execute(WRITE, [ctx.job_id, note])
    os._exit(9)


@dataclass
class Basket:
    items: list[str]


shopping = app.flow("shopping", state=Basket)


@shopping.step(retry=RETRY)
async def take(ctx: Context, item: str) -> Any:
    shopping.state(ctx).items.append(item)
    return pay.after("1h", amount=5, at=datetime(2030, 1, 2))


@shopping.step(transaction=True, queue="money", concurrency_key="till")
async def pay(ctx: Context, amount: int, at: datetime | None = None) -> Any:
    shopping.state(ctx).items.append(str(amount))
    return give.next(shopping.state(ctx).items)


@shopping.step(concurrency_key="door")
def give(items: list[str]) -> list[str]:
    return items


@app.task
async def die(how: str) -> None:
    await asyncio.sleep(0)
    match how:
        case "exit":
            os._exit(9)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)


@app.task
def die_in_thread(how: str) -> None:
    asyncio.run(die.definition.function(how))


@app.task
async def fork_and_die(folder: str) -> None:
    """Leave a process behind that holds the pipe to the worker open."""
    if (pid := os.fork()) == 0:
        signal.pause()
    (Path(folder) / "pid").write_text(str(pid))
    os._exit(9)


@app.task
async def linger(ctx: Context, folder: str) -> str:
    await ctx.progress(10, "began")
    (Path(folder) / "began").write_text(str(os.getpid()))
    while not (Path(folder) / "end").exists():
        await asyncio.sleep(0.01)
    return "ended"


def square(n: int) -> int:
    return n * n


@app.task
def with_processes(n: int) -> int:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(square, n).result()


def make_task(hw: Headway) -> Any:
    """Return a task that only the app has."""

    @hw.task
    async def made(n: int) -> int:
        return n + 1

    return made


make_task(app)


def load() -> Headway:
    """Return the app, as the command line would load it."""
    return app


def load_badly() -> Headway:
    """Fail as a module with a mistake does."""
    raise ImportError("no module named nonsense")


def load_and_die() -> Headway:
    """End as a module that ends its process does."""
    os._exit(3)
