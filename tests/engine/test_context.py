"""`Context`: what a handler may know about its job, and say about it."""

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from headway import Context, Headway, Retry
from tests.support import DEADLINE, eventually


async def test_a_handler_knows_its_job(hw: Headway) -> None:
    seen: list[Context] = []

    @hw.task(queue="mail", retry=Retry(max_attempts=7))
    async def task(ctx: Context, n: int) -> None:
        seen.append(ctx)

    job = await task.using(headers={"trace": "abc"}).enqueue(1)
    await hw.run_until_idle()
    (ctx,) = seen
    assert (ctx.job_id, ctx.task, ctx.queue) == (job.id, "task", "mail")
    assert (ctx.attempt, ctx.max_attempts, dict(ctx.headers)) == (1, 7, {"trace": "abc"})
    assert (ctx.deadline, ctx.cancelled) == (None, False)


async def test_it_knows_its_attempt_through_failures(hw: Headway) -> None:
    seen: list[int] = []

    @hw.task(retry=Retry(4, backoff="constant", base=0, jitter=0))
    def task(ctx: Context) -> None:
        seen.append(ctx.attempt)
        raise ValueError

    await task.enqueue()
    await hw.run_until_idle()
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_it_knows_when_its_time_is_up(hw: Headway, kind: str) -> None:
    def in_a_thread(ctx: Context) -> datetime | None:
        return ctx.deadline

    async def on_the_loop(ctx: Context) -> datetime | None:
        return ctx.deadline

    task = hw.task(timeout="10m")(on_the_loop if kind == "async" else in_a_thread)
    before = datetime.now(UTC)
    job = await task.enqueue()
    await hw.run_until_idle()
    after = datetime.now(UTC)
    deadline = await job.result()
    assert before + timedelta(minutes=10) <= deadline <= after + timedelta(minutes=10)


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_progress_is_seen_while_the_job_runs(hw: Headway, start, kind: str) -> None:
    opened = threading.Event()

    def in_a_thread(ctx: Context) -> None:
        ctx.progress_sync(33.333, "rendering")
        opened.wait(DEADLINE)

    async def on_the_loop(ctx: Context) -> None:
        await ctx.progress(33.333, "rendering")
        await asyncio.to_thread(opened.wait, DEADLINE)

    task = hw.task(on_the_loop if kind == "async" else in_a_thread)
    start()
    job = await task.enqueue()

    async def progress() -> dict | None:
        return (await job.status()).progress

    assert await eventually(progress) == {"percent": 33.33, "message": "rendering"}
    opened.set()
    await job.result(timeout="60s")
    assert (await job.status()).progress == {"percent": 33.33, "message": "rendering"}, "kept"


async def test_the_newest_progress_wins_however_much_there_was(hw: Headway, start) -> None:
    opened = asyncio.Event()

    @hw.task
    async def chatty(ctx: Context) -> None:
        for n in range(2_000):
            await ctx.progress(n / 20, f"step {n}")
        await opened.wait()

    start()
    job = await chatty.enqueue()

    async def last() -> bool:
        progress = (await job.status()).progress
        return progress is not None and progress["message"] == "step 1999"

    await eventually(last)
    opened.set()


@pytest.mark.parametrize(
    ("percent", "stored"), [(-5, 0), (250, 100), (12.3456, 12.35), (0, 0), (100, 100)]
)
async def test_progress_is_a_share_of_a_hundred(hw: Headway, start, percent, stored) -> None:
    opened = asyncio.Event()

    @hw.task
    async def task(ctx: Context) -> None:
        await ctx.progress(percent)
        await opened.wait()

    start()
    job = await task.enqueue()

    async def progress() -> dict | None:
        return (await job.status()).progress

    assert (await eventually(progress)) == {"percent": stored, "message": ""}
    opened.set()


async def test_a_note_with_any_text_hurts_neither_its_job_nor_others(hw: Headway, start) -> None:
    opened = asyncio.Event()

    @hw.task
    async def task(ctx: Context, text: str) -> str:
        await ctx.progress(1, text.replace("NUL", "\0").replace("LONE", "\udc80"))
        await opened.wait()
        return "done"

    start()
    texts = ["NUL", "LONE", "x" * 50_000, "good"]
    jobs = [await task.enqueue(text) for text in texts]

    async def all_noted() -> list[str] | None:
        notes = [(await job.status()).progress for job in jobs]
        return [note["message"] for note in notes] if all(notes) else None

    told = await eventually(all_noted)
    assert (told[0], told[1], told[3]) == ("\\0", "\\udc80", "good")
    assert len(told[2]) < 2_000
    opened.set()
    assert [await job.result(timeout="60s") for job in jobs] == ["done"] * 4


async def test_progress_of_an_attempt_that_failed_is_gone(hw: Headway) -> None:
    @hw.task(retry=Retry(2, backoff="constant", base="1h", cap="1h"))
    async def task(ctx: Context) -> None:
        await ctx.progress(90, "nearly")
        raise ValueError

    job = await task.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).progress is None


async def test_what_a_handler_logs_carries_its_job(hw: Headway, caplog) -> None:
    @hw.task(queue="mail")
    async def task(ctx: Context) -> None:
        ctx.logger.info("sent %d", 3, extra={"user": "ada"})

    with caplog.at_level(logging.INFO, "headway.job"):
        job = await task.enqueue()
        await hw.run_until_idle()
    (record,) = [r for r in caplog.records if r.name == "headway.job"]
    assert record.getMessage() == "sent 3"
    assert (record.job_id, record.task, record.attempt) == (str(job.id), "task", 1)
    assert (record.queue, record.user) == ("mail", "ada")


async def test_a_handler_without_a_context_gets_none(hw: Headway) -> None:
    @hw.task
    async def task(ctx: int) -> int:
        return ctx

    job = await task.enqueue(5)
    await hw.run_until_idle()
    assert await job.result() == 5
