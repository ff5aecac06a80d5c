"""When the handler of a batch task is called, and with what."""

import asyncio
import threading
from collections.abc import AsyncIterator

from headway import Batch, Context, Depends, Headway, Retry
from tests.batches.calls import Doubling
from tests.support import eventually


async def test_a_full_batch_is_called_without_waiting(hw: Headway, start) -> None:
    doubling = Doubling(hw, Batch(size=3, wait="1h"))
    doubling.opened.set()
    jobs = [await doubling.task.enqueue(number) for number in range(6)]
    start()
    assert [await job.result(timeout="60s") for job in jobs] == [0, 2, 4, 6, 8, 10]
    assert doubling.sizes == [3, 3]


async def test_a_batch_that_is_not_full_is_called_after_its_wait(hw: Headway) -> None:
    doubling = Doubling(hw, Batch(size=100, wait="30ms"))
    doubling.opened.set()
    jobs = await doubling.task.enqueue_many(doubling.task.call(number) for number in range(5))
    report = await hw.run_until_idle()
    assert doubling.calls == [[0, 1, 2, 3, 4]]
    assert report.settled == {"succeed": 5}
    assert [await job.result() for job in jobs] == [0, 2, 4, 6, 8]


async def test_without_a_wait_it_is_called_with_what_is_there(hw: Headway) -> None:
    doubling = Doubling(hw, Batch(size=100, wait=0))
    doubling.opened.set()
    await doubling.task.enqueue_many({"numbers": number} for number in range(5))
    await hw.run_until_idle()
    assert doubling.calls == [[0, 1, 2, 3, 4]]


async def test_one_call_of_a_task_runs_at_a_time(hw: Headway, start, db) -> None:
    doubling = Doubling(hw, Batch(size=2, wait="1h"), slots=6)
    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(6))
    start()
    await eventually(
        lambda: db.execute("select count(*) from jobs where state = 'running'").fetchone() == (6,)
    )
    await eventually(lambda: doubling.calls)
    assert doubling.sizes == [2]
    doubling.opened.set()
    assert [await job.result(timeout="60s") for job in jobs] == [0, 2, 4, 6, 8, 10]
    assert doubling.sizes == [2, 2, 2]
    assert doubling.most_inside == 1


async def test_a_worker_holds_no_more_of_it_than_one_call_takes(hw: Headway, start) -> None:
    """So that a line of them leaves slots for others, here and elsewhere."""
    doubling = Doubling(hw, Batch(size=2, wait="1h"))

    @hw.task
    async def other(n: int) -> int:
        return n

    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(20))
    start(concurrency=3)
    await eventually(lambda: doubling.calls)
    assert await (await other.enqueue(7)).result(timeout="60s") == 7
    doubling.opened.set()
    for number, job in enumerate(jobs):
        assert await job.result(timeout="60s") == number * 2


async def test_each_job_has_a_context_of_its_own(hw: Headway) -> None:
    @hw.task
    async def after(n: int) -> int:
        return n

    @hw.task(batch=Batch(size=3, wait=0), retry=Retry(max_attempts=1))
    async def spread(contexts: list[Context], numbers: list[int]) -> list[str | Exception]:
        for context, number in zip(contexts, numbers, strict=True):
            await context.enqueue(after, number)
        return [
            ValueError("odd") if number % 2 else f"{context.job_id} {context.headers['n']}"
            for context, number in zip(contexts, numbers, strict=True)
        ]

    jobs = [await spread.using(headers={"n": f"h{n}"}).enqueue(n) for n in range(3)]
    report = await hw.run_until_idle()
    assert await jobs[0].result() == f"{jobs[0].id} h0"
    assert await jobs[2].result() == f"{jobs[2].id} h2"
    # Jobs that a job makes exist if it succeeds: two of spread, and one of each of these.
    assert report.settled == {"succeed": 4, "fail": 1}


async def test_a_plain_function_runs_in_a_thread_with_what_it_depends_on(hw: Headway) -> None:
    made: list[str] = []
    threads: set[int] = set()

    async def connection() -> AsyncIterator[str]:
        made.append("opened")
        yield "connection"
        made.append("closed")

    @hw.task(batch=Batch(4, wait=0))
    def write(rows: list[dict[str, int]], conn: str = Depends(connection)) -> list[str]:
        threads.add(threading.get_ident())
        return [f"{row['n']} through {conn}" for row in rows]

    jobs = [await write.enqueue({"n": n}) for n in range(4)]
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == [f"{n} through connection" for n in range(4)]
    assert made == ["opened", "closed"], "once for the call, not for each job"
    assert threading.get_ident() not in threads
    assert len(threads) == 1


async def test_a_job_of_a_batch_waits_for_its_key_like_any_other(hw: Headway) -> None:
    doubling = Doubling(
        hw, Batch(size=10, wait=0), concurrency_key=lambda numbers: f"k{numbers % 2}"
    )
    doubling.opened.set()
    jobs = await doubling.task.enqueue_many({"numbers": number} for number in range(6))
    await asyncio.wait_for(hw.run_until_idle(), 90)
    assert [await job.result() for job in jobs] == [0, 2, 4, 6, 8, 10]
    assert all(len({number % 2 for number in call}) == len(call) for call in doubling.calls)
