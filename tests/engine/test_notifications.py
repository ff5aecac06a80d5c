"""The ways in which a worker finds work: by notification, by an exact sleep, by polling alone."""

import asyncio

import psycopg
import pytest

from headway import Headway, Retry, Snooze
from tests.support import eventually

NEVER = {"poll": "1h", "poll_alone": "1h"}
"""No net: what is picked up was heard of, or slept for."""


@pytest.fixture
def echo(hw: Headway):
    @hw.task
    async def echo(n: int) -> int:
        return n

    return echo


# The last thing a listener said is the call by which it proves that it hears itself.
LISTENERS = """select pid from pg_stat_activity
               where application_name like 'headway worker%' and datname = current_database()
                 and query = 'select pg_catalog.pg_notify($1::text, $2::text)'"""


@pytest.fixture
async def hears(start, db):
    """Starts a worker and returns it once it listens."""

    async def hears(**options):
        running = start(**(NEVER | options))
        await eventually(lambda: db.execute(LISTENERS).fetchall())
        return running

    return hears


async def test_a_worker_that_was_idle_hears_of_a_job(hw, echo, hears) -> None:
    await hears()
    for n in range(20):
        assert await (await echo.enqueue(n)).result(timeout="60s") == n


async def test_it_hears_of_lanes_it_has_never_seen(hw, echo, hears) -> None:
    await hears()
    for n in (5, -5, 32_767, -32_768):
        assert await (await echo.using(priority=n).enqueue(n)).result(timeout="60s") == n


async def test_it_hears_of_queues_whose_names_have_spaces(hw, echo, hears) -> None:
    await hears(queues={"a queue of mine": 1, "größer 5,3": 1})
    for queue in ("a queue of mine", "größer 5,3"):
        job = await echo.using(queue=queue, priority=3).enqueue(1)
        assert await job.result(timeout="60s") == 1


async def test_a_delayed_job_runs_when_it_is_due_and_no_poll_is_needed(hw, echo, hears) -> None:
    await hears()
    jobs = [await echo.using(delay=f"{n * 50}ms").enqueue(n) for n in (6, 1, 4, 2)]
    for job, n in zip(jobs, (6, 1, 4, 2), strict=True):
        assert await job.result(timeout="60s") == n
        status = await job.status()
        assert status.started_at >= status.run_at, "never early"


async def test_a_job_that_is_due_sooner_than_the_one_slept_for_is_not_late(hw, echo, hears) -> None:
    await hears()
    far = await echo.using(delay="1h").enqueue(1)
    near = await echo.using(delay="100ms").enqueue(2)
    assert await near.result(timeout="60s") == 2
    assert (await far.status()).state == "scheduled"


async def test_retries_and_snoozes_come_back_when_they_are_due(hw, hears) -> None:
    ran: list[str] = []

    @hw.task(retry=Retry(backoff="constant", base="50ms", jitter=0))
    async def task() -> None:
        ran.append("x")
        if len(ran) == 1:
            raise ValueError
        if len(ran) == 2:
            raise Snooze("50ms")

    await hears()
    await (await task.enqueue()).result(timeout="60s")
    assert len(ran) == 3


async def test_a_worker_finds_what_was_due_before_it_started(hw, echo, start) -> None:
    jobs = [await echo.using(delay="10ms").enqueue(n) for n in range(3)]
    jobs += [await echo.using(priority=n).enqueue(n) for n in range(3)]
    start(**NEVER)
    assert [await job.result(timeout="60s") for job in jobs] == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("notify", [True, False])
async def test_polling_alone_finds_everything(dsn: str, schema: str, notify: bool) -> None:
    async with Headway(dsn, schema=schema, notify=notify) as hw:

        @hw.task
        async def echo(n: int) -> int:
            return n

        worker = hw.worker(listen=not notify, poll="1h", poll_alone="20ms")
        running = asyncio.create_task(worker.run())
        now = await echo.enqueue_many({"n": n} for n in range(20))
        high = await echo.using(priority=9).enqueue(9)
        later = await echo.using(delay="100ms").enqueue(7)
        assert [await job.result(timeout="60s") for job in now] == list(range(20))
        assert await high.result(timeout="60s") == 9
        assert await later.result(timeout="60s") == 7
        worker.stop()
        await running


async def test_nothing_is_notified_where_notifications_are_off(dsn: str, schema: str) -> None:
    heard: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.add_notify_handler(lambda notification: heard.append(notification.payload))
        for channel in (f"{schema}_work", f"{schema}_done"):
            conn.execute(f'listen "{channel}"')
        async with Headway(dsn, schema=schema, notify=False) as hw:

            @hw.task
            async def task() -> None: ...

            await task.enqueue_many([{}] * 10)
            job = await task.using(delay="1h").enqueue()
            await hw.run_until_idle()
            await job.cancel()
        conn.execute("select 1")
    assert heard == []


async def test_many_jobs_of_one_call_are_one_notification_per_queue(hw, echo, dsn, schema) -> None:
    heard: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.add_notify_handler(lambda notification: heard.append(notification.payload))
        conn.execute(f'listen "{schema}_work"')
        lanes = [(queue, priority) for queue in "ab" for priority in (0, 5)] * 50
        calls = [echo.using(queue=q, priority=p).call(1) for q, p in lanes]
        calls += [echo.using(delay="1h", queue=q).call(1) for q in "ab"]
        await echo.enqueue_many(calls)
        await hw.close()  # the client notifies after its commit, and closing waits for that
        conn.execute("select 1")
    assert sorted(heard) == ["later", "ready 5,0 a", "ready 5,0 b"]


async def test_a_listener_that_was_killed_comes_back(hw, echo, hears, db) -> None:
    running = await hears()
    killed = db.execute(f"select pg_terminate_backend(pid) from ({LISTENERS}) l").fetchall()
    assert len(killed) == 1
    # A new listener looks for jobs that were enqueued while there was none.
    for n in range(5):
        assert await (await echo.enqueue(n)).result(timeout="60s") == n
    assert not running.done()


async def test_every_connection_of_a_worker_may_be_killed_at_once(hw, echo, hears, db) -> None:
    running = await hears()
    kill = """select pg_terminate_backend(pid) from pg_stat_activity
              where application_name like 'headway worker%' and datname = current_database()"""
    for n in range(3):
        assert len(db.execute(kill).fetchall()) >= 3
        assert await (await echo.enqueue(n)).result(timeout="60s") == n
        assert await (await echo.using(delay="50ms").enqueue(n)).result(timeout="60s") == n
    assert not running.done()
