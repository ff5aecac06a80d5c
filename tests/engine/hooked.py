"""Tasks for tests of hooks, at the top of a module, so that a child process finds them."""

from __future__ import annotations

import logging
import os
from typing import Any

from headway import Batch, BoundTask, CallNext, Headway, JobInfo, Retry, SyncCallNext, current_job
from headway._api.new_job import Options

app = Headway("postgresql://never-used@127.0.0.1:1/none")


def adopt(hw: Headway, name: str, app: Headway) -> BoundTask[..., Any]:
    """Return a task or flow of this module as one of an app that a test made."""
    hw.tasks[name] = app.tasks[name]
    return BoundTask(hw._session, app.tasks[name].definitions()[0], Options())


WRITE = "insert into effects.effect (note) values (%s)"

log = logging.getLogger("hooked")
said: list[str] = []


class _Keep(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        said.append(self.format(record))


_handler = _Keep()
_handler.setFormatter(logging.Formatter("%(job_id)s %(task)s %(step)s %(attempt)s %(message)s"))
log.addHandler(_handler)


@app.task
async def say() -> tuple[str, int]:
    log.warning("said")
    return said[-1], os.getpid()


@app.task(executor="process")
def say_in_process() -> tuple[str, int]:
    log.warning("said")
    return said[-1], os.getpid()


@app.task(executor="process", retry=Retry(1))
def fail_in_process() -> None:
    raise ValueError("in a child")


wrapped = Headway("postgresql://never-used@127.0.0.1:1/none")


@wrapped.middleware
async def outer(job: JobInfo, call_next: CallNext) -> Any:
    assert current_job() == job
    value = await call_next()
    return f"outer({value})" if isinstance(value, str) else value


@wrapped.middleware
async def inner(job: JobInfo, call_next: CallNext) -> Any:
    try:
        value = await call_next()
    except LookupError as error:
        return f"inner({error.args[0]}, {os.getpid()})"
    return f"inner({value}, {os.getpid()})" if isinstance(value, str) else value


@wrapped.middleware
def plain(job: JobInfo, call_next: SyncCallNext) -> Any:
    return f"plain({call_next()}, {job.handler}, {job.batch_size})"


@wrapped.task
async def on_loop(n: str) -> str:
    return n


@wrapped.task
def in_thread(n: str) -> str:
    return n


@wrapped.task(executor="process")
def in_process(n: str) -> str:
    return n


@wrapped.task(batch=Batch(size=2, wait="1h"))
async def together(n: list[str]) -> list[Any]:
    return [LookupError("missing") if each == "bad" else each for each in n]


@wrapped.task(batch=Batch(size=2, wait="1h"))
def together_in_thread(n: list[str]) -> list[str]:
    raise LookupError(",".join(n))


trip = wrapped.flow("trip")


@trip.step
async def pack(n: str) -> Any:
    return go.next(f"{n} packed")


@trip.step
async def go(n: str) -> str:
    return n
