"""`job.cancel()`: what it does to a job wherever that stands."""

import asyncio

import pytest

from headway import Context, Fatal, Headway
from headway.errors import JobCancelled
from tests.support import DEADLINE, eventually


@pytest.fixture
def wait(hw: Headway):
    """A task that sits in its handler for as long as it is let."""
    inside = asyncio.Event()

    @hw.task
    async def wait(ctx: Context) -> None:
        inside.set()
        await asyncio.sleep(3600)

    wait.inside = inside
    return wait


@pytest.mark.parametrize("options", [{}, {"delay": "1h"}])
async def test_a_job_that_waits_is_cancelled_at_once(hw, wait, db, options) -> None:
    job = await wait.using(**options).enqueue()
    assert await job.cancel() is True
    status = await job.status()
    assert (status.state, status.attempt) == ("cancelled", 0)
    assert status.error == {"type": "Cancelled", "message": "cancelled while it waited"}
    assert db.execute("select count(*) from job").fetchone() == (0,)
    await hw.run_until_idle()
    assert not wait.inside.is_set()


async def test_a_job_that_runs_is_stopped(hw, wait, start) -> None:
    start()
    job = await wait.enqueue()
    await asyncio.wait_for(wait.inside.wait(), DEADLINE)
    assert await job.cancel() is True
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")
    assert (await job.status()).attempt == 1


async def test_a_job_that_ended_is_left_as_it_is(hw) -> None:
    @hw.task
    async def good() -> int:
        return 1

    @hw.task
    async def bad() -> None:
        raise Fatal("no")

    jobs = [await good.enqueue(), await bad.enqueue(), await good.using(delay="1h").enqueue()]
    await hw.run_until_idle()
    await jobs[2].cancel()
    before = [await job.status() for job in jobs]
    assert [await job.cancel() for job in jobs] == [False, False, False]
    assert [await job.status() for job in jobs] == before
    assert [status.state for status in before] == ["succeeded", "failed", "cancelled"]


async def test_a_running_job_may_be_asked_twice(hw, wait, start) -> None:
    start()
    job = await wait.enqueue()
    await asyncio.wait_for(wait.inside.wait(), DEADLINE)
    assert await asyncio.gather(job.cancel(), job.cancel(), job.cancel())
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")
    assert await job.cancel() is False


async def test_a_job_whose_worker_hears_nothing_is_stopped_by_its_heartbeat(
    hw, wait, start
) -> None:
    start(listen=False, lease="1s")
    job = await wait.enqueue()
    await asyncio.wait_for(wait.inside.wait(), DEADLINE)
    await job.cancel()
    assert (await job.status()).cancelling or (await job.status()).finished
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")


async def test_a_cancelled_job_that_would_be_tried_again_is_not(hw, start) -> None:
    inside, ran = asyncio.Event(), []

    @hw.task
    async def stubborn() -> None:
        ran.append(1)
        inside.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise ValueError("that was not nice") from None

    start()
    job = await stubborn.enqueue()
    await asyncio.wait_for(inside.wait(), DEADLINE)
    await job.cancel()
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")
    assert ran == [1]


async def test_a_handler_that_finishes_all_the_same_keeps_its_result(hw, start) -> None:
    inside = asyncio.Event()

    @hw.task
    async def nearly_done() -> str:
        inside.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "saved what there was"
        return "all of it"

    start()
    job = await nearly_done.enqueue()
    await asyncio.wait_for(inside.wait(), DEADLINE)
    await job.cancel()
    assert await job.result(timeout="60s") == "saved what there was"


async def test_of_many_jobs_cancelled_while_a_worker_eats_them_each_has_one_end(
    hw, start, db
) -> None:
    ran = set()

    @hw.task
    async def task(n: int) -> None:
        ran.add(n)
        await asyncio.sleep(0.001)

    jobs = await task.enqueue_many({"n": n} for n in range(300))
    start(concurrency=10)
    told = await asyncio.gather(*[job.cancel() for job in reversed(jobs)])
    count = "select count(*), count(distinct id) from archive"
    await eventually(lambda: db.execute(count).fetchone() == (300, 300))
    states = [(await job.status()).state for job in jobs]
    for n, (cancelled, state) in enumerate(zip(reversed(told), states, strict=True)):
        assert state in ("succeeded", "cancelled")
        if not cancelled:
            assert state == "succeeded"
        if n not in ran:
            assert state == "cancelled"


def test_the_same_without_an_event_loop(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:

        @hw.task
        def task() -> None: ...

        job = task.enqueue_sync()
        assert job.cancel_sync() is True
        assert job.cancel_sync() is False
        assert job.status_sync().state == "cancelled"
