"""Jobs of a batch that are stopped: before their call, in it, one of them or all."""

import asyncio
import time

import pytest

from headway import Batch, Headway, Retry
from headway.errors import JobCancelled
from tests.batches.calls import Doubling
from tests.support import eventually

ONCE = Retry(max_attempts=1)


def held(db, count: int):
    """Return whether a worker holds this many jobs."""
    running = "select count(*) from jobs where state = 'running'"
    return lambda: db.execute(running).fetchone() == (count,)


async def test_one_that_is_cancelled_while_it_waits_leaves_and_the_others_stay(
    hw: Headway, start, db
) -> None:
    doubling = Doubling(hw, Batch(size=3, wait="1h"))
    doubling.opened.set()
    start()
    first, second = [await doubling.task.enqueue(number) for number in (1, 2)]
    await eventually(held(db, 2))
    await first.cancel()
    with pytest.raises(JobCancelled):
        await first.result(timeout="60s")
    assert doubling.calls == []
    more = [await doubling.task.enqueue(number) for number in (3, 4)]
    assert [await job.result(timeout="60s") for job in (second, *more)] == [4, 6, 8]
    assert [sorted(call) for call in doubling.calls] == [[2, 3, 4]]


async def test_one_that_is_cancelled_in_its_call_does_not_disturb_the_others(
    hw: Headway, start
) -> None:
    doubling = Doubling(hw, Batch(size=3, wait="1h"))
    start()
    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(3))
    await eventually(lambda: doubling.calls)
    await jobs[1].cancel()
    with pytest.raises(JobCancelled):
        await jobs[1].result(timeout="60s")
    assert [context.cancelled for context in doubling.contexts] == [False, True, False]
    doubling.opened.set()
    assert await jobs[0].result(timeout="60s") == 0
    assert await jobs[2].result(timeout="60s") == 4
    assert doubling.told == 0


async def test_a_call_that_nobody_wants_any_more_is_cancelled(hw: Headway, start) -> None:
    doubling = Doubling(hw, Batch(size=2, wait="1h"))
    start()
    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(2))
    await eventually(lambda: doubling.calls)
    for job in jobs:
        await job.cancel()
    for job in jobs:
        with pytest.raises(JobCancelled):
            await job.result(timeout="60s")
    assert (doubling.told, doubling.cleaned) == (1, 1)


async def test_g11_jobs_that_wait_for_their_call_go_back_unharmed(hw: Headway, start, db) -> None:
    doubling = Doubling(hw, Batch(size=10, wait="1h"))
    running = start(grace="1h")
    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(3))
    await eventually(held(db, 3))
    report = await asyncio.wait_for(running.stop(), 90)
    assert report.settled == {"release": 3}
    assert doubling.calls == []
    for job in jobs:
        status = await job.status()
        assert (status.state, status.attempt, status.worker) == ("ready", 0, None)
        assert await job.attempts() == []


async def test_g11_a_call_may_finish_and_the_jobs_after_it_go_back(hw: Headway, start, db) -> None:
    doubling = Doubling(hw, Batch(size=2, wait="1h"), slots=4)
    running = start(grace="1h")
    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(4))
    await eventually(held(db, 4))
    await eventually(lambda: doubling.calls)
    stopping = asyncio.create_task(running.stop())
    await eventually(held(db, 2))
    doubling.opened.set()
    report = await asyncio.wait_for(stopping, 90)
    assert report.settled == {"release": 2, "succeed": 2}
    assert doubling.sizes == [2]
    states = sorted([((await job.status()).state, (await job.status()).attempt) for job in jobs])
    assert states == [("ready", 0)] * 2 + [("succeeded", 1)] * 2


async def test_g11_a_call_that_outlasts_the_grace_is_cancelled_once_and_gives_all_back(
    hw: Headway, start
) -> None:
    doubling = Doubling(hw, Batch(size=3, wait="1h"))
    running = start(grace=0)
    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(3))
    await eventually(lambda: doubling.calls)
    report = await asyncio.wait_for(running.stop(), 90)
    assert report.settled == {"release": 3}
    assert (doubling.told, doubling.cleaned) == (1, 1), "it could take its time to clean up"
    assert {((await j.status()).state, (await j.status()).attempt) for j in jobs} == {("ready", 0)}


async def test_a_timeout_counts_from_the_call_and_fails_all_in_it(hw: Headway) -> None:
    doubling = Doubling(hw, Batch(size=3, wait="1h"), timeout="50ms", retry=ONCE)
    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(3))
    report = await hw.run_until_idle()
    assert report.settled == {"fail": 3}
    for job in jobs:
        assert (await job.status()).error == {
            "type": "TimedOut",
            "message": "timed out after 50ms",
        }
    assert (doubling.told, doubling.cleaned) == (1, 1)


async def test_waiting_for_a_batch_is_not_part_of_the_timeout(hw: Headway) -> None:
    doubling = Doubling(hw, Batch(size=3, wait="300ms"), timeout="250ms", retry=ONCE)
    doubling.opened.set()
    job = await doubling.task.enqueue(4)
    await hw.run_until_idle()
    assert await job.result() == 8


async def test_one_whose_own_time_is_up_leaves_the_others_in_the_call(hw: Headway, start) -> None:
    doubling = Doubling(hw, Batch(size=2, wait="1h"), retry=ONCE)
    start()
    hasty = await doubling.task.using(timeout="50ms").enqueue(1)
    calm = await doubling.task.enqueue(2)

    async def failed() -> bool:
        return (await hasty.status()).state == "failed"

    await eventually(failed)
    assert doubling.inside == 1
    doubling.opened.set()
    assert await calm.result(timeout="60s") == 4
    assert doubling.told == 0


async def test_a_thread_with_a_batch_is_interrupted(hw: Headway) -> None:
    @hw.task(batch=Batch(size=3, wait="1h"), timeout="50ms", retry=ONCE)
    def spin(numbers: list[int]) -> None:
        while True:
            time.sleep(0.001)

    jobs = await spin.enqueue_many({"numbers": number} for number in range(3))
    report = await hw.run_until_idle()
    assert report.settled == {"fail": 3}
    assert {(await job.status()).error["type"] for job in jobs} == {"TimedOut"}  # type: ignore[index]
