"""A time to live: what waited longer is never run, and never lost silently (G7)."""

import asyncio
from datetime import timedelta

import pytest

from headway import Headway, Retry
from headway.errors import JobExpired
from tests.support import DEADLINE, eventually


async def test_g7_a_job_that_waited_too_long_is_in_the_archive_and_was_never_run(
    hw: Headway, start, db
) -> None:
    ran: list[int] = []

    @hw.task(ttl="10ms")
    async def task(n: int) -> None:
        ran.append(n)

    job = await task.using(delay="20ms").enqueue(1)
    await asyncio.sleep(0.05)  # by the database's clock its time is over before anyone looks
    start()
    with pytest.raises(JobExpired):
        await job.result(timeout="60s")
    status = await job.status()
    assert (status.state, status.attempt, status.input) == ("expired", 0, {"n": 1})
    assert status.error == {"type": "Expired", "message": "its time to live passed while it waited"}
    assert status.expires_at == status.created_at + timedelta(milliseconds=10)
    assert ran == []
    assert db.execute("select count(*) from job").fetchone() == (0,)


async def test_a_ready_job_past_its_time_is_not_claimed_even_where_no_sweep_runs(
    hw: Headway, start, db
) -> None:
    ran: list[int] = []

    @hw.task
    async def task(n: int) -> None:
        ran.append(n)

    late = await task.using(ttl="1d").enqueue(1)
    db.execute("update job set expires_at = now() - interval '1 hour'")
    # The leader is someone else, who does nothing.
    db.execute("insert into leader values ('sweeps', 999999, now() + interval '1 hour')")
    start()
    for n in range(2, 5):
        await (await task.enqueue(n)).result(timeout="60s")
    assert ran == [2, 3, 4]
    assert (await late.status()).state == "ready"
    assert await late.attempts() == []


async def test_a_job_within_its_time_runs(hw: Headway) -> None:
    @hw.task(ttl="1h")
    async def task() -> int:
        return 1

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await job.result() == 1


async def test_a_running_job_does_not_expire(hw: Headway, start, db) -> None:
    inside, opened = asyncio.Event(), asyncio.Event()

    @hw.task(ttl="1h")
    async def slow() -> str:
        inside.set()
        await opened.wait()
        return "finished"

    start()
    job = await slow.enqueue()
    await asyncio.wait_for(inside.wait(), DEADLINE)
    db.execute("update job set expires_at = now() - interval '1 hour'")
    # A job that may expire goes through the same sweep: when it has, so would the running one.
    witness = await slow.using(ttl=0, delay="1h").enqueue()
    with pytest.raises(JobExpired):
        await witness.result(timeout="60s")
    assert (await job.status()).state == "running"
    opened.set()
    assert await job.result(timeout="60s") == "finished"


async def test_a_job_that_waits_for_its_next_attempt_may_expire(hw: Headway, start, db) -> None:
    @hw.task(ttl="1h", retry=Retry(backoff="constant", base="30m", cap="30m"))
    async def task() -> None:
        raise ValueError("not yet")

    start()
    job = await task.enqueue()

    async def waits() -> bool:
        return (await job.status()).state == "scheduled"

    await eventually(waits)
    db.execute("update job set expires_at = now() - interval '1 second'")
    with pytest.raises(JobExpired):
        await job.result(timeout="60s")
    assert [a.error["message"] for a in await job.attempts()] == ["not yet"]


async def test_many_expire_and_none_is_lost(hw: Headway, start, db) -> None:
    @hw.task
    async def task() -> None: ...

    await task.using(delay="1h", ttl=0).enqueue_many([{}] * 2_500)
    start()
    count = "select count(*) from archive where state = 'e'"
    await eventually(lambda: db.execute(count).fetchone() == (2_500,))
    assert db.execute("select count(*) from job").fetchone() == (0,)
