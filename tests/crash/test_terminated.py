"""Connections ended by the server, one or all, again and again."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.count import assert_each_finished_once, registered, told, unfinished
from tests.crash.producers import producing
from tests.support import eventually

_ALL = """select count(pg_terminate_backend(pid)) from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid()"""
_LISTENERS = """select count(pg_terminate_backend(pid)) from pg_stat_activity
                where datname = current_database() and application_name like 'headway worker%'
                  and query like 'select pg_catalog.pg_notify(%'"""  # its own voice, the last it said


@pytest.mark.slow
async def test_g3_every_backend_ended_every_second_for_twenty_seconds_costs_nothing(
    app: Headway, db: psycopg.Connection[Any], worker
) -> None:
    workers = [worker(concurrency=20) for _ in range(2)]
    await eventually(lambda: registered(db) == 2)
    ended = 0
    async with producing(app, 4) as producers:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            row = db.execute(_ALL).fetchone()
            assert row is not None
            ended += row[0]
            await asyncio.sleep(1)
    assert ended > 20
    await eventually(lambda: unfinished(db) == 0)
    producers.assert_kept(db)
    assert len(producers.made) > 100
    assert [each.process.poll() for each in workers] == [None, None]


@pytest.mark.slow
async def test_a_listener_that_lost_its_connection_misses_nothing_and_listens_again(
    app: Headway, seen: psycopg.Connection[Any], worker
) -> None:
    """The poll is an hour: only notifications, and the scan after each reconnection, find work."""
    only = worker("--poll", "1h")
    jobs = []
    for _ in range(3):
        first = await app.tasks["witness"].enqueue()
        assert await first.result(timeout="60s") == only.pid
        await eventually(lambda: _ended(seen) == 1)
        meanwhile = await app.tasks["witness"].enqueue()
        assert await meanwhile.result(timeout="60s") == only.pid
        jobs += [first, meanwhile]
    assert_each_finished_once(seen, jobs)
    assert told(seen, "began") == len(jobs)


def _ended(db: psycopg.Connection[Any]) -> int:
    row = db.execute(_LISTENERS).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.slow
async def test_a_worker_that_does_not_listen_finds_everything_by_polling(
    app: Headway, db: psycopg.Connection[Any], worker
) -> None:
    worker("--no-listen")
    jobs = await app.tasks["echo"].enqueue_many({"n": n} for n in range(100))
    await eventually(lambda: unfinished(db) == 0)
    jobs.append(await app.tasks["echo"].enqueue(100))
    jobs.append(await app.tasks["echo"].using(delay="200ms").enqueue(101))
    await eventually(lambda: unfinished(db) == 0)
    assert_each_finished_once(db, jobs)
    assert _ended(db) == 0, "it listened"
