"""`job.retry()`: once more, where it stood."""

import asyncio

import pytest

from headway import Fatal, Headway, Retry
from headway.errors import JobFailed
from tests.support import DEADLINE, eventually


@pytest.fixture
def fragile(hw: Headway):
    """A task that fails for as long as the world is broken."""
    world = {"broken": True, "runs": 0}

    @hw.task(retry=Retry(max_attempts=2, backoff="constant", base=0, jitter=0))
    async def fragile(n: int) -> int:
        world["runs"] += 1
        if world["broken"]:
            raise ValueError(f"broken {world['runs']}")
        return n

    fragile.world = world
    return fragile


async def test_g7_a_failed_job_runs_again_whole_after_the_world_was_fixed(hw, fragile, db) -> None:
    job = await fragile.using(headers={"a": "b"}, priority=3, queue="default").enqueue(7)
    await hw.run_until_idle()
    failed = await job.status()
    assert (failed.state, failed.attempt) == ("failed", 2)

    fragile.world["broken"] = False
    assert await job.retry() is True
    again = await job.status()
    assert (again.state, again.attempt, again.error) == ("ready", 0, None)
    assert (again.input, again.headers, again.priority) == ({"n": 7}, {"a": "b"}, 3)
    assert (again.created_at, again.max_attempts) == (failed.created_at, 2)

    await hw.run_until_idle()
    assert await job.result() == 7
    assert [attempt.error["message"] for attempt in await job.attempts()] == [
        "broken 1",
        "broken 2",
    ]
    assert db.execute("select count(*) from jobs").fetchone() == (1,)


async def test_a_retried_job_has_all_its_attempts_again(hw, fragile) -> None:
    job = await fragile.enqueue(1)
    await hw.run_until_idle()
    await job.retry()
    await hw.run_until_idle()
    assert (await job.status()).attempt == 2
    claims = [attempt.claim for attempt in await job.attempts()]
    assert claims == [1, 2, 3, 4], "the claim number never repeats"


async def test_a_cancelled_and_an_expired_job_run_again(hw, fragile, start) -> None:
    fragile.world["broken"] = False
    cancelled = await fragile.using(delay="1h").enqueue(1)
    await cancelled.cancel()
    expired = await fragile.using(delay="1h", ttl=0).enqueue(2)
    start()

    async def is_expired() -> bool:
        return (await expired.status()).state == "expired"

    await eventually(is_expired)
    for job, n in ((cancelled, 1), (expired, 2)):
        assert await job.retry() is True
        assert await job.result(timeout="60s") == n
        assert (await job.status()).expires_at is None


async def test_a_scheduled_job_runs_now(hw, fragile, start) -> None:
    fragile.world["broken"] = False
    start(poll="1h")
    job = await fragile.using(delay="1d").enqueue(4)
    assert await job.retry() is True
    assert await job.result(timeout="60s") == 4


async def test_a_job_that_waits_for_its_next_attempt_gets_it_now(hw, start) -> None:
    runs: list[int] = []

    @hw.task(retry=Retry(backoff="constant", base="1h", cap="1h", jitter=0))
    async def task() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError

    start(poll="1h")
    job = await task.enqueue()

    async def waits() -> bool:
        return (await job.status()).state == "scheduled"

    await eventually(waits)
    assert await job.retry() is True
    await job.result(timeout="60s")
    assert (await job.status()).attempt == 2, "its spent attempt stays spent"


async def test_there_is_nothing_to_repeat_of_a_job_that_waits_runs_or_succeeded(hw, start) -> None:
    inside, opened = asyncio.Event(), asyncio.Event()

    @hw.task
    async def task() -> None:
        inside.set()
        await opened.wait()

    job = await task.enqueue()
    assert await job.retry() is False
    start()
    await asyncio.wait_for(inside.wait(), DEADLINE)
    assert await job.retry() is False
    opened.set()
    await job.result(timeout="60s")
    assert await job.retry() is False
    assert (await job.status()).attempt == 1


async def test_a_job_that_failed_for_good_may_still_be_asked_to_try(hw, start) -> None:
    @hw.task
    async def hopeless() -> None:
        raise Fatal("never")

    start()
    job = await hopeless.enqueue()
    for _ in range(3):
        with pytest.raises(JobFailed):
            await job.result(timeout="60s")
        assert await job.retry() is True
    with pytest.raises(JobFailed):
        await job.result(timeout="60s")
    assert len(await job.attempts()) == 4


async def test_of_several_retries_at_once_one_makes_it_run(hw, fragile, db) -> None:
    job = await fragile.enqueue(1)
    await hw.run_until_idle()
    fragile.world["broken"] = False
    told = await asyncio.gather(*[job.retry() for _ in range(8)])
    assert sum(told) == 1
    assert db.execute("select count(*) from jobs").fetchone() == (1,)
    await hw.run_until_idle()
    assert fragile.world["runs"] == 3


def test_the_same_without_an_event_loop(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:

        @hw.task
        def task() -> None:
            raise Fatal("no")

        job = task.enqueue_sync()
        assert job.retry_sync() is False
        hw.run_until_idle_sync()
        assert job.retry_sync() is True
        assert job.status_sync().state == "ready"
