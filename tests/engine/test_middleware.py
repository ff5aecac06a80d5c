"""Middleware around attempts: order, values, errors, and everything that it cannot change."""

import asyncio
import contextvars
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway import (
    Batch,
    CallNext,
    ConfigError,
    Context,
    Fatal,
    Headway,
    JobInfo,
    Retry,
    Snooze,
    SyncCallNext,
)
from tests.engine import hooked
from tests.support import DEADLINE

ONCE = Retry(1)
TWICE = Retry(2, backoff="constant", base=0, jitter=0)

IN = {
    "on_loop": "outer(inner(a, PID))",
    "in_thread": "outer(inner(plain(a, in_thread, 1), PID))",
    "in_process": "outer(inner(plain(a, in_process, 1), PID))",
    "trip": "outer(inner(a packed, PID))",
}


@pytest.mark.parametrize("name", IN)
@pytest.mark.parametrize("suspect", [False, True], ids=["worker", "isolated"])
async def test_middleware_is_around_every_kind_of_handler_where_that_runs(
    hw: Headway, db, name: str, suspect: bool
) -> None:
    job = await hooked.adopt(hw, name, hooked.wrapped).enqueue("a")
    if suspect:
        db.execute("update job set crashes = 1")
    await hw.run_until_idle(processes=1)
    result = await job.result()
    shape = IN[name].split("PID")
    assert result.startswith(shape[0])
    assert result.endswith(shape[1])
    pid = int(result[len(shape[0]) : -len(shape[1])])
    runs_here = not suspect and name != "in_process"
    # A suspect is cleared by its first step, so the second one runs in the worker.
    assert (pid == os.getpid()) == (runs_here or name == "trip")


async def test_each_job_of_a_batch_has_middleware_around_its_own_answer(hw: Headway) -> None:
    together = hooked.adopt(hw, "together", hooked.wrapped)
    in_thread = hooked.adopt(hw, "together_in_thread", hooked.wrapped)
    good, bad = [await together.enqueue(n) for n in ("good", "bad")]
    threads = [await in_thread.enqueue(n) for n in ("x", "y")]
    await hw.run_until_idle()
    here = os.getpid()
    assert await good.result() == f"outer(inner(good, {here}))"
    assert await bad.result() == f"outer(inner(missing, {here}))"
    assert [await job.result() for job in threads] == [f"outer(inner(x,y, {here}))"] * 2


async def test_a_thread_inherits_the_context_of_async_middleware(hw: Headway) -> None:
    colour = contextvars.ContextVar("colour", default="none")

    @hw.middleware
    async def paint(job: JobInfo, call_next: CallNext) -> Any:
        colour.set(job.task)
        return await call_next()

    @hw.task
    def red() -> str:
        return colour.get()

    @hw.task
    async def blue() -> str:
        return colour.get()

    made = [await red.enqueue(), await blue.enqueue()]
    await hw.run_until_idle()
    assert [await job.result() for job in made] == ["red", "blue"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_error_of_middleware_is_the_error_of_the_attempt(hw: Headway, when: str) -> None:
    ran: list[int] = []

    @hw.middleware
    async def strict(job: JobInfo, call_next: CallNext) -> Any:
        if job.attempt == 1 and when == "before":
            raise PermissionError("closed")
        value = await call_next()
        if job.attempt == 1:
            raise PermissionError("closed")
        return value

    @hw.task(retry=TWICE)
    async def job(ctx: Context) -> int:
        ran.append(ctx.attempt)
        return ctx.attempt

    made = await job.enqueue()
    await hw.run_until_idle()
    assert await made.result() == 2
    assert ran == ([2] if when == "before" else [1, 2])
    (first, *_) = await made.attempts()
    assert first.error is not None
    assert first.error["type"] == "PermissionError"


@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_g4_an_error_after_the_handler_rolls_its_transaction_back(
    hw: Headway, db, effects, executor: str
) -> None:

    @hw.middleware
    async def strict(job: JobInfo, call_next: CallNext) -> Any:
        value = await call_next()
        assert db.execute("select count(*) from effects.effect").fetchone() == (0,), (
            "not committed yet"
        )
        if job.attempt == 1:
            raise PermissionError("closed")
        return value

    async def on_loop(ctx: Context) -> None:
        await ctx.conn.execute(hooked.WRITE, [str(ctx.attempt)])

    def in_thread(ctx: Context) -> None:
        ctx.conn.execute(hooked.WRITE, [str(ctx.attempt)])

    handler: Callable[..., Any] = on_loop if executor == "async" else in_thread
    job = await hw.task(handler, transaction=True, retry=TWICE).enqueue()
    await hw.run_until_idle()
    await job.result()
    assert effects() == ["2"]


@pytest.fixture
def greedy(hw: Headway) -> Headway:
    """An app whose middleware swallows everything that a handler raises."""

    @hw.middleware
    async def swallow(job: JobInfo, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except BaseException:
            return "swallowed"

    @hw.middleware
    def swallow_in_thread(job: JobInfo, call_next: SyncCallNext) -> Any:
        try:
            return call_next()
        except BaseException:
            return "swallowed in the thread"

    return hw


def end(how: str) -> None:
    match how:
        case "error":
            raise ValueError("no")
        case "fatal":
            raise Fatal("no")
        case _:
            raise Snooze("1h")


async def test_middleware_may_replace_an_error_but_neither_snooze_nor_fatal(
    greedy: Headway,
) -> None:
    @greedy.task
    async def on_loop(how: str) -> Any:
        end(how)

    @greedy.task
    def in_thread(how: str) -> Any:
        end(how)

    @greedy.task(batch=Batch(size=1))
    async def together(how: list[str]) -> None:
        end(how[0])

    made = {
        (task.name, how): await task.enqueue(how)
        for task in (on_loop, in_thread, together)
        for how in ("error", "fatal", "snooze")
    }
    await greedy.run_until_idle()
    for (name, how), job in made.items():
        status = await job.status()
        expected = {"error": "succeeded", "fatal": "failed", "snooze": "scheduled"}
        assert (name, how, status.state) == (name, how, expected[how])
        assert status.attempt == (0 if how == "snooze" else 1)
    assert await made["on_loop", "error"].result() == "swallowed"
    assert await made["in_thread", "error"].result() == "swallowed in the thread"


async def wait_on_loop() -> None:
    await asyncio.sleep(3600)


def wait_in_thread() -> None:
    end = time.monotonic() + 3600
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("handler", [wait_on_loop, wait_in_thread])
async def test_middleware_cannot_swallow_a_timeout_or_a_cancellation(
    greedy: Headway, start, handler: Callable[..., Any]
) -> None:
    began = asyncio.Event()

    @greedy.middleware
    async def tell(job: JobInfo, call_next: CallNext) -> Any:
        began.set()
        return await call_next()

    task = greedy.task(handler, retry=ONCE, **_grace(handler))
    start()
    late = await task.using(timeout="50ms").enqueue()
    await _ended(late)
    status = await late.status()
    assert (status.state, status.error and status.error["type"]) == ("failed", "TimedOut")
    began.clear()
    asked = await task.enqueue()
    await asyncio.wait_for(began.wait(), DEADLINE)
    await asked.cancel()
    await _ended(asked)
    assert (await asked.status()).state == "cancelled"


@pytest.mark.parametrize("batch", [None, Batch(size=1)])
@pytest.mark.parametrize("swallows", [False, True])
async def test_a_timeout_covers_the_middleware(
    hw: Headway, batch: Batch | None, swallows: bool
) -> None:
    @hw.middleware
    async def hang(job: JobInfo, call_next: CallNext) -> Any:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if not swallows:
                raise
        return "went on"

    options: Any = {} if batch is None else {"batch": batch}

    @hw.task(retry=ONCE, timeout="50ms", **options)
    async def job(n: list[int]) -> None: ...

    made = await job.enqueue(1 if batch else [1])
    await hw.run_until_idle()
    status = await made.status()
    assert (status.state, status.error and status.error["type"]) == ("failed", "TimedOut")


async def test_middleware_runs_the_handler_once_or_not_at_all(hw: Headway) -> None:
    ran: list[str] = []

    @hw.middleware
    async def choose(job: JobInfo, call_next: CallNext) -> Any:
        if job.input["how"] == "skip":
            return "cached"
        await call_next()
        return await call_next()

    @hw.task(retry=ONCE)
    async def job(how: str) -> Any:
        ran.append(how)

    skipped, twice = await job.enqueue("skip"), await job.enqueue("twice")
    await hw.run_until_idle()
    assert await skipped.result() == "cached"
    error = (await twice.status()).error
    assert error is not None
    assert error["type"] == "headway.errors.ConfigError"
    assert ran == ["twice"]


def test_only_functions_are_middleware(hw: Headway) -> None:
    with pytest.raises(ConfigError):
        hw.middleware("no function")  # type: ignore[type-var]


def _grace(handler: Callable[..., Any]) -> dict[str, Any]:
    return {} if asyncio.iscoroutinefunction(handler) else {"stop_grace": 0}


async def _ended(job: Any) -> None:
    waits: Awaitable[Any] = job.result(timeout=DEADLINE)
    with pytest.raises(Exception):  # noqa: B017 - its state is asserted
        await waits
