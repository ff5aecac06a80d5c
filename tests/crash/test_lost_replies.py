"""Replies lost on their way, after the server has committed: nothing is done twice, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.count import assert_each_finished_once, unfinished
from tests.crash.proxy import Proxy, opening
from tests.crash.tasks import register
from tests.support import eventually


@pytest.fixture
async def far(proxy: Proxy, schema: str) -> AsyncIterator[Headway]:
    """An app that reaches the database through the proxy."""
    app = register(Headway(proxy.dsn, schema=schema))
    yield app
    await app.close()


async def test_g3_an_enqueue_whose_reply_was_lost_makes_one_job(
    far: Headway, app: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str
) -> None:
    await far.open()
    lost = proxy.lose_reply(opening("writes/enqueue_one", schema), times=2)
    job = await far.tasks["echo"].enqueue(1)
    assert lost.answered.is_set()
    assert unfinished(db) == 1
    await app.run_until_idle()
    assert_each_finished_once(db, [job])


async def test_g3_the_same_from_sync_code(
    far: Headway, app: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str
) -> None:
    lost = proxy.lose_reply(opening("writes/enqueue_one", schema), times=2)
    job = await asyncio.to_thread(far.tasks["echo"].enqueue_sync, 1)
    assert lost.answered.is_set()
    await app.run_until_idle()
    assert_each_finished_once(db, [job])


async def test_g3_many_whose_commit_lost_its_reply_are_made_once(
    far: Headway, app: Headway, db: psycopg.Connection[Any], proxy: Proxy
) -> None:
    """More than one statement's worth: a transaction, whose COMMIT is what is not answered."""
    lost = proxy.lose_reply("COMMIT")
    jobs = await far.tasks["echo"].enqueue_many({"n": n} for n in range(6_000))
    assert lost.answered.is_set()
    await app.run_until_idle()
    assert_each_finished_once(db, jobs)


@pytest.mark.parametrize("how", ["async", "sync"])
async def test_g3_a_repeated_enqueue_makes_no_second_job_after_the_first_has_run(
    far: Headway, app: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str, how: str
) -> None:
    lost = proxy.lose_reply(opening("writes/enqueue_one", schema), patient=True)
    task = far.tasks["echo"]
    enqueuing = asyncio.create_task(
        task.enqueue(1) if how == "async" else asyncio.to_thread(task.enqueue_sync, 1)
    )
    await eventually(lost.answered.is_set)
    await app.run_until_idle()
    assert unfinished(db) == 0
    assert not enqueuing.done()
    proxy.release(lost)
    job = await enqueuing
    await app.run_until_idle()
    assert_each_finished_once(db, [job])
    assert (await job.status()).attempt == 1


async def test_g3_a_repeated_enqueue_leaves_a_job_alone_that_runs_meanwhile(
    far: Headway, app: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str, start
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.task(name="echo2")
    async def there(n: int) -> int:
        began.set()
        await go_on.wait()
        return n

    @far.task(name="echo2")
    async def here(n: int) -> int:
        raise AssertionError("it runs on the other app")

    start()
    lost = proxy.lose_reply(opening("writes/enqueue_one", schema), patient=True)
    enqueuing = asyncio.create_task(here.enqueue(7))
    await asyncio.wait_for(began.wait(), 60)
    proxy.release(lost)
    job = await enqueuing
    go_on.set()
    assert await job.result(timeout="60s") == 7
    assert_each_finished_once(db, [job])


@pytest.mark.slow
async def test_g3_a_settling_whose_reply_was_lost_settles_once(
    app: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str, worker
) -> None:
    lost = proxy.lose_reply(opening("moves/finish", schema), times=5)
    jobs = await app.tasks["pause"].enqueue_many({"n": n} for n in range(500))
    worker(lease="60s", dsn=proxy.dsn)
    await eventually(lambda: unfinished(db) == 0)
    assert lost.times == 0
    assert_each_finished_once(db, jobs)
    # Settled jobs did not run again, and the worker adopted the jobs claimed with them.
    assert db.execute("select count(*) from archive where attempt > 1").fetchone() == (0,)
    assert db.execute("select count(*) from attempt").fetchone() == (0,)


@pytest.mark.slow
async def test_g3_a_retry_whose_reply_was_lost_is_written_once(
    app: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str, worker
) -> None:
    lost = proxy.lose_reply(opening("moves/requeue", schema), times=3)
    jobs = await app.tasks["flaky"].enqueue_many({"n": n} for n in range(60))
    worker(lease="60s", dsn=proxy.dsn, concurrency=10)
    await eventually(lambda: unfinished(db) == 0)
    assert lost.times == 0
    assert_each_finished_once(db, jobs)
    rows = db.execute(
        "select attempt, error->>'type', count(*) from attempt group by 1, 2"
    ).fetchall()
    assert rows == [(1, "RuntimeError", 60)]
    assert db.execute("select distinct attempt, claim >> 32 from archive").fetchall() == [(2, 2)]


@pytest.mark.slow
async def test_g3_a_claim_whose_reply_was_lost_is_adopted(
    app: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str, worker
) -> None:
    """By the worker itself: its lease goes on, so nobody rescues them."""
    lost = proxy.lose_reply(opening("moves/claim_plain", schema), times=3)
    jobs = await app.tasks["pause"].enqueue_many({"n": n} for n in range(100))
    running = worker(lease="60s", dsn=proxy.dsn)
    await eventually(lambda: unfinished(db) == 0)
    assert lost.times == 0
    assert "adopted" in running.output()
    assert_each_finished_once(db, jobs)
    assert db.execute("select distinct attempt, claim >> 32 from archive").fetchall() == [(1, 1)]


@pytest.mark.slow
async def test_g3_a_heartbeat_and_a_registration_without_replies_cost_nothing(
    app: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str, worker
) -> None:
    registrations = proxy.lose_reply(opening("writes/register_worker", schema))
    heartbeats = proxy.lose_reply(opening("writes/heartbeat", schema), times=3)
    jobs = await app.tasks["pause"].enqueue_many({"n": n, "seconds": 0.1} for n in range(200))
    worker(dsn=proxy.dsn, concurrency=4)
    await eventually(lambda: unfinished(db) == 0)
    assert (registrations.times, heartbeats.times) == (0, 0)
    assert_each_finished_once(db, jobs)
