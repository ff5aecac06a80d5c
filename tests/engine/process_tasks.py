"""Tasks that run in processes: at the top of a module, so that a process can import them."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from headway import Context, Depends, Fatal, Headway, Retry, Snooze
from tests.core.shapes import Person

app = Headway("postgresql://never-used@127.0.0.1:1/none")
AT_ONCE = Retry(max_attempts=3, backoff="constant", base=0, jitter=0, never=(KeyError,))


def greeting() -> Iterator[str]:
    yield "hello"


@app.task(executor="process", retry=AT_ONCE)
def greet(person: Person, ctx: Context, hello: Annotated[str, Depends(greeting)]) -> Person:
    person.tags.add(hello)
    return person


@app.task(executor="process", retry=AT_ONCE)
def whoami(ctx: Context) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "job_id": str(ctx.job_id),
        "task": ctx.task,
        "queue": ctx.queue,
        "attempt": ctx.attempt,
        "max_attempts": ctx.max_attempts,
        "headers": dict(ctx.headers),
        "deadline": ctx.deadline,
    }


@app.task(executor="process", retry=AT_ONCE)
def outcome(how: str) -> Any:
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
        case "stop":
            raise StopIteration
        case "cancelled":
            raise asyncio.CancelledError
        case "nul":
            return "\0"
        case "object":
            return object()
        case "big":
            return "x" * 3_000
    return how


@app.task(executor="process", retry=AT_ONCE)
def die(ctx: Context, how: str, mark: str) -> int:
    """Kill this process, the first time."""
    if not Path(mark).exists():
        Path(mark).touch()
        if how == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(7)
    return ctx.attempt


@app.task(executor="process", retry=Retry(max_attempts=1))
def linger(ctx: Context, folder: str) -> None:
    """Says that it began, and that it was there to the end."""
    ctx.progress_sync(10, "began")
    (Path(folder) / "began").write_text(str(os.getpid()))
    end = time.monotonic() + 3600
    while time.monotonic() < end:
        time.sleep(0.01)
    (Path(folder) / "ended").touch()


@app.task(executor="process", retry=AT_ONCE)
def overlap(folder: str, n: int) -> int:
    """How many of its kind are inside at once."""
    mine = Path(folder) / str(n)
    mine.touch()
    inside = len(list(Path(folder).iterdir()))
    time.sleep(0.02)
    mine.unlink()
    return inside


@app.task(executor="process", slots=1)
def narrow(folder: str, n: int) -> int:
    return overlap(folder, n)


@app.task(executor="process")
def moment(at: datetime) -> datetime:
    return at
