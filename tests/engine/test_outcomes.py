"""Where each outcome of a handler leads: the state, the attempts and what is stored (G7)."""

import asyncio
from datetime import timedelta
from typing import Annotated

import pytest

from headway import Batch, Context, Depends, Fatal, Headway, Job, Retry, Snooze

AT_ONCE = Retry(max_attempts=4, backoff="constant", base=0, jitter=0)


async def state(job: Job) -> tuple[str, int]:
    status = await job.status()
    return status.state, status.attempt


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_return_value_is_kept(hw: Headway, kind: str) -> None:
    async def on_the_loop(a: int) -> dict:
        return {"a": a}

    def in_a_thread(a: int) -> dict:
        return {"a": a}

    task = hw.task(on_the_loop if kind == "async" else in_a_thread)
    job = await task.enqueue(5)
    await hw.run_until_idle()
    assert await job.result() == {"a": 5}
    assert await state(job) == ("succeeded", 1)


async def test_an_error_is_tried_again_until_it_passes(hw: Headway) -> None:
    @hw.task(retry=AT_ONCE)
    async def task(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError(f"attempt {ctx.attempt}")
        return ctx.attempt

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await job.result() == 3
    attempts = await job.attempts()
    assert [a.error["message"] for a in attempts] == ["attempt 1", "attempt 2"]
    assert [(a.attempt, a.claim) for a in attempts] == [(1, 1), (2, 2)]


async def test_g7_a_job_fails_after_its_last_attempt_with_a_row_for_each(hw: Headway) -> None:
    @hw.task(retry=AT_ONCE)
    async def task(ctx: Context, note: str) -> None:
        raise ValueError(f"{note} {ctx.attempt}")

    job = await task.enqueue("why")
    await hw.run_until_idle()
    assert await state(job) == ("failed", 4)
    status = await job.status()
    assert status.input == {"note": "why"}
    assert status.error["message"] == "why 4"
    attempts = await job.attempts()
    assert [a.error["message"] for a in attempts] == ["why 1", "why 2", "why 3", "why 4"]
    assert all(a.finished_at and a.started_at and a.worker for a in attempts)


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (ConnectionError, ("failed", 4)),
        (ConnectionResetError, ("failed", 4)),
        (PermissionError, ("failed", 1)),
        (KeyError, ("failed", 1)),
    ],
)
async def test_only_errors_that_the_policy_names_are_tried_again(hw: Headway, error, ends) -> None:
    policy = Retry(4, backoff="constant", base=0, on=(OSError,), never=(PermissionError,))

    @hw.task(retry=policy)
    async def task() -> None:
        raise error("no")

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await state(job) == ends


async def test_fatal_fails_at_once(hw: Headway) -> None:
    @hw.task(retry=AT_ONCE)
    def task() -> None:
        raise Fatal("no such customer")

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await state(job) == ("failed", 1)
    assert (await job.status()).error["type"] == "headway.errors.Fatal"
    assert len(await job.attempts()) == 1


@pytest.mark.parametrize(
    ("backoff", "base", "delays"),
    [
        ("constant", "10m", [600, 600]),
        ("linear", "10m", [600, 1200]),
        ("exponential", "10m", [600, 1200]),
        (lambda attempt: timedelta(hours=attempt), 0, [3600, 7200]),
    ],
)
async def test_the_next_attempt_comes_when_the_policy_says(
    hw: Headway, backoff, base, delays
) -> None:
    @hw.task(retry=Retry(3, backoff=backoff, base=base, cap="1d", jitter=0))
    async def task() -> None:
        raise ValueError

    job = await task.enqueue()
    for n, delay in enumerate(delays):
        await hw.run_until_idle()
        assert await state(job) == ("scheduled", n + 1)
        waits = (await job.status()).run_at - (await job.attempts())[-1].finished_at
        assert waits == timedelta(seconds=delay)
        await job.retry()
    await hw.run_until_idle()
    assert await state(job) == ("failed", 3)


async def test_jitter_spreads_jobs_that_failed_together(hw: Headway) -> None:
    @hw.task(retry=Retry(backoff="constant", base="1h", cap="1h", jitter=0.5))
    async def task() -> None:
        raise ValueError

    jobs = await task.enqueue_many([{}] * 30)
    await hw.run_until_idle()
    told = [await job.status() for job in jobs]
    waits = [
        (s.run_at - (await j.attempts())[0].finished_at) for s, j in zip(told, jobs, strict=True)
    ]
    assert len(set(waits)) > 20
    assert all(timedelta(minutes=30) <= wait <= timedelta(hours=1) for wait in waits)


async def test_a_backoff_function_that_raises_fails_the_job_and_nobody_else(hw: Headway) -> None:
    def odd(attempt: int) -> float:
        raise SystemExit("never mind")

    @hw.task(retry=Retry(backoff=odd))
    async def task() -> None:
        raise ValueError("first")

    @hw.task
    async def other() -> int:
        return 1

    job, good = await task.enqueue(), await other.enqueue()
    await hw.run_until_idle()
    assert await state(job) == ("failed", 1)
    error = (await job.status()).error
    assert error["type"] == "ValueError"
    assert error["message"] == "first (its backoff function raised SystemExit: never mind)"
    assert await good.result() == 1


async def test_a_snooze_costs_no_attempt_however_often(hw: Headway) -> None:
    snoozes = 25
    seen: list[int] = []

    @hw.task(retry=Retry(max_attempts=1))
    async def task(ctx: Context) -> str:
        seen.append(ctx.attempt)
        if len(seen) <= snoozes:
            raise Snooze(0)
        return "awake"

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "awake"
    assert seen == [1] * (snoozes + 1)
    assert await state(job) == ("succeeded", 1)
    assert await job.attempts() == [], "a snooze is not a failure"


async def test_a_snoozed_job_waits_as_long_as_it_said(hw: Headway) -> None:
    @hw.task
    def task() -> None:
        raise Snooze("2h")

    job = await task.enqueue()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt, status.error) == ("scheduled", 0, None)
    assert timedelta(hours=2) <= status.run_at - status.created_at < timedelta(hours=2, minutes=5)


async def test_a_snooze_that_says_nothing_sensible_fails_with_the_reason(hw: Headway) -> None:
    @hw.task(retry=AT_ONCE)
    async def task() -> None:
        raise Snooze("until spring")

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await state(job) == ("failed", 1)
    assert "'until spring' is not a duration" in (await job.status()).error["message"]


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit,
        KeyboardInterrupt,
        asyncio.CancelledError,
        GeneratorExit,
        BaseException,
        StopIteration,
    ],
)
async def test_nothing_that_a_handler_raises_ends_the_worker(hw: Headway, kind: str, error) -> None:
    async def on_the_loop() -> None:
        raise error("bye")

    def in_a_thread() -> None:
        raise error("bye")

    violent = hw.task(retry=Retry(1))(on_the_loop if kind == "async" else in_a_thread)

    @hw.task
    async def calm(n: int) -> int:
        return n

    jobs = [await violent.enqueue(), await calm.enqueue(1), await violent.enqueue()]
    await hw.run_until_idle()
    assert [await state(job) for job in jobs] == [("failed", 1), ("succeeded", 1), ("failed", 1)]
    error_stored = (await jobs[0].status()).error
    assert error.__name__ in error_stored["type"] + error_stored["message"]
    assert "Traceback" in error_stored["traceback"]


async def _await_something_cancelled() -> None:
    inner = asyncio.create_task(asyncio.sleep(10))
    inner.cancel()
    await inner


async def test_a_cancellation_by_a_library_is_tried_again(hw: Headway) -> None:
    """Awaiting what was cancelled, in every kind of handler; also where the job's own task is."""
    twice = Retry(max_attempts=2, backoff="constant", base=0)

    @hw.task(retry=twice)
    async def awaited() -> None:
        await _await_something_cancelled()

    @hw.task(retry=twice)
    async def cancels_itself() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.sleep(10)

    @hw.task(retry=twice)
    def plain(ctx: Context) -> None:
        asyncio.run(_await_something_cancelled())

    @hw.task(retry=twice, transaction=True)
    async def charge(ctx: Context) -> None:
        await _await_something_cancelled()

    @hw.task(retry=twice, batch=Batch(2, wait=0))
    async def together(items: list[int]) -> None:
        await _await_something_cancelled()

    flow = hw.flow("flow", retry=twice)

    @flow.step
    async def begin(given: Annotated[None, Depends(_await_something_cancelled)]) -> None: ...

    tasks = [awaited, cancels_itself, plain, charge, flow]
    jobs = [await together.enqueue(1), await together.enqueue(2)]
    jobs += [await task.enqueue() for task in tasks]
    await hw.run_until_idle()
    assert [await state(job) for job in jobs] == [("failed", 2)] * 7
    kinds = {a.error["type"] for job in jobs for a in await job.attempts()}
    assert kinds == {"asyncio.exceptions.CancelledError"}


async def test_a_number_for_retry_of_a_call_keeps_the_policy_of_the_task(hw: Headway) -> None:
    delays: list[int] = []

    def backoff(attempt: int) -> int:
        delays.append(attempt)
        return 0

    @hw.task(retry=Retry(max_attempts=9, backoff=backoff, never=(KeyError,)))
    async def task(error: str) -> None:
        raise {"value": ValueError, "key": KeyError}[error]

    value = await task.using(retry=3).enqueue("value")
    key = await task.using(retry=3).enqueue("key")
    await hw.run_until_idle()
    assert [await state(job) for job in (value, key)] == [("failed", 3), ("failed", 1)]
    assert delays == [1, 2]


async def test_max_attempts_of_the_call_hold_over_those_of_the_task(hw: Headway) -> None:
    runs: list[int] = []

    @hw.task(retry=Retry(max_attempts=9, backoff="constant", base="1h", cap="1h"))
    async def task(ctx: Context) -> None:
        runs.append(ctx.max_attempts)
        raise ValueError

    own = Retry(max_attempts=3, backoff="constant", base=0, jitter=0)
    job = await task.using(retry=own).enqueue()
    await hw.run_until_idle()
    assert await state(job) == ("failed", 3)
    assert runs == [3, 3, 3]
