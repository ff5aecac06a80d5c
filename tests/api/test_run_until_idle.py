"""`hw.run_until_idle()`: what is due, and then back."""

import asyncio

import pytest

from headway import Headway, Retry, Snooze
from headway.errors import ConfigError


async def test_everything_due_runs_and_the_report_counts_it(hw) -> None:
    @hw.task(retry=Retry(max_attempts=2, backoff="constant", base=0, jitter=0))
    async def task(n: int) -> int:
        if n < 0:
            raise ValueError
        return n

    await task.enqueue_many({"n": n} for n in range(-2, 50))
    report = await hw.run_until_idle()
    assert report.settled == {"succeed": 50, "retry": 2, "fail": 2}
    assert (report.total, report.lost) == (54, 0)


async def test_nothing_to_do_is_done_at_once(hw) -> None:
    @hw.task
    async def task() -> None: ...

    assert (await hw.run_until_idle()).total == 0
    assert (await hw.run_until_idle()).total == 0


async def test_what_is_not_due_stays(hw) -> None:
    runs: list[str] = []

    @hw.task(retry=Retry(backoff="constant", base="1h", cap="1h"))
    async def task(how: str) -> None:
        runs.append(how)
        if how == "fail":
            raise ValueError
        if how == "snooze":
            raise Snooze("1h")

    jobs = [await task.enqueue(how) for how in ("fail", "snooze", "pass")]
    jobs.append(await task.using(delay="1h").enqueue("later"))
    await hw.run_until_idle()
    assert sorted(runs) == ["fail", "pass", "snooze"]
    states = [(await job.status()).state for job in jobs]
    assert states == ["scheduled", "scheduled", "succeeded", "scheduled"]


async def test_jobs_that_enqueue_jobs_are_followed_to_the_end(hw) -> None:
    ran: list[tuple[str, int]] = []

    @hw.task
    async def chain(n: int) -> None:
        ran.append(("chain", n))
        if n:
            await chain.enqueue(n - 1)
            await leaf.enqueue(n)

    @hw.task(queue="other", priority=3)
    def leaf(n: int) -> None:
        ran.append(("leaf", n))

    await chain.enqueue(10)
    await hw.run_until_idle()
    assert sorted(ran) == sorted(
        [("chain", n) for n in range(11)] + [("leaf", n) for n in range(1, 11)]
    )


async def test_only_the_queues_asked_for_are_served(hw) -> None:
    ran: list[str] = []

    @hw.task(queue="a")
    async def one() -> None:
        ran.append("a")

    @hw.task(queue="b")
    async def two() -> None:
        ran.append("b")

    await one.enqueue()
    await two.enqueue()
    await hw.run_until_idle(queues={"b": 1})
    assert ran == ["b"]
    await hw.run_until_idle()
    assert ran == ["b", "a"]


async def test_jobs_that_nobody_here_knows_do_not_keep_it_waiting(hw, db) -> None:
    @hw.task
    async def task() -> None: ...

    db.execute(
        """insert into job (id, run_at, created_at, max_attempts, state, queue, task, input)
           values (gen_random_uuid(), now(), now(), 3, 'r', 'default', 'unknown', '{}')"""
    )
    await task.enqueue()
    assert (await hw.run_until_idle()).total == 1


async def test_a_slow_job_is_waited_for(hw) -> None:
    done: list[int] = []

    @hw.task
    async def slow() -> None:
        await asyncio.sleep(0.3)
        done.append(1)

    await slow.enqueue()
    await hw.run_until_idle()
    assert done == [1]


def test_it_runs_where_no_event_loop_does_again_and_again(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:
        ran: list[int] = []

        @hw.task
        def task(n: int) -> None:
            ran.append(n)

        for n in range(3):
            task.enqueue_sync(n)
            assert hw.run_until_idle_sync().settled == {"succeed": 1}
        assert ran == [0, 1, 2]


async def test_an_option_that_does_not_exist_is_refused(hw) -> None:
    @hw.task
    async def task() -> None: ...

    with pytest.raises(ConfigError, match="speed"):
        await hw.run_until_idle(speed="full")
