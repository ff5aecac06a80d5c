"""`hw.failures()`: every failure, once, as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway import Fatal, Headway, Retry
from headway.errors import ConfigError
from tests.failures.conftest import Stream, fail

Streams = Callable[..., Stream]
Db = psycopg.Connection[Any]


async def test_failures_are_told_as_they_happen_with_all_that_is_known(
    hw: Headway, stream: Streams
) -> None:
    @hw.task(queue="post", retry=Retry(max_attempts=2, base=0))
    async def mail(why: str) -> None:
        raise OSError(why)

    told = await stream().listens()
    job = await mail.using(headers={"trace": "abc"}).enqueue("no route")
    await hw.run_until_idle()
    await told.told(job.id)
    (failure,) = told.heard
    status = await job.status()
    assert (failure.task, failure.step, failure.queue) == ("mail", "", "post")
    assert (failure.attempt, failure.failed_at) == (2, status.finished_at)
    assert failure.error == status.error
    assert "raise OSError" in failure.error["traceback"]
    assert (failure.input, failure.headers) == ({"why": "no route"}, {"trace": "abc"})


async def test_only_jobs_that_failed_for_good_are_told_of(hw: Headway, stream: Streams) -> None:
    """Not an attempt that is repeated, a success, a cancellation."""
    tried = list[str]()

    @hw.task(retry=Retry(base=0))
    async def task(kind: str) -> None:
        tried.append(kind)
        if kind == "fails":
            raise Fatal(kind)
        if kind == "recovers" and tried.count(kind) == 1:
            raise OSError(kind)

    told = await stream().listens()
    cancelled = await task.enqueue("cancelled")
    await cancelled.cancel()
    await task.enqueue("recovers")
    failed = await task.enqueue("fails")
    await hw.run_until_idle()
    again = await task.enqueue("fails")
    await hw.run_until_idle()
    await told.told(failed.id, again.id)


async def test_a_job_that_is_retried_and_fails_again_is_told_of_again(
    hw: Headway, stream: Streams, db: Db
) -> None:
    told = await stream().listens()
    job_id = fail(db)
    await told.told(job_id)
    assert await hw.job(job_id).retry()
    (claim,) = db.execute("select claim from claim('default', 1)").fetchone() or (None,)
    db.execute("select fail(%s, %s, 'again')", (job_id, claim))
    await told.told(job_id, job_id)
    assert [failure.error["message"] for failure in told.heard] == ["no", "again"]


async def test_without_a_moment_what_failed_before_is_not_told(stream: Streams, db: Db) -> None:
    fail(db)
    told = await stream().listens()
    await told.told(*[fail(db) for _ in range(3)])


@pytest.mark.parametrize("form", ["text", "timedelta", "moment"])
async def test_with_a_moment_what_failed_since_then_is_told_first(
    form: str, stream: Streams, db: Db
) -> None:
    hour = timedelta(hours=1)
    since = {"text": "1h", "timedelta": hour, "moment": datetime.now(UTC) - hour}[form]
    fail(db)
    db.execute("update attempt set finished_at = finished_at - interval '2 hours'")
    recent = [fail(db), fail(db)]
    told = stream(since)
    await told.told(*recent)
    await told.told(*recent, fail(db))


def test_a_moment_without_a_zone_is_refused_at_once(hw: Headway) -> None:
    with pytest.raises(ConfigError, match="no time zone"):
        hw.failures(datetime(2040, 1, 1))
    with pytest.raises(ConfigError, match="since 'soon'"):
        hw.failures("soon")


@pytest.fixture
def another(dsn: str, schema: str) -> Iterator[Db]:
    """A connection whose transaction is ours to end."""
    with psycopg.connect(dsn) as conn:
        conn.execute(sql.SQL("set search_path = {}").format(sql.Identifier(schema)))
        conn.commit()
        yield conn


async def test_g7_a_failure_that_commits_late_is_not_lost(
    stream: Streams, db: Db, another: Db
) -> None:
    """Its moment and its transaction are older than those of failures that were told already."""
    told = await stream().listens()
    late = fail(another)
    early = [fail(db), fail(db)]
    await told.told(*early)
    another.commit()
    await told.told(*early, late)
    last = fail(db)
    await told.told(*early, late, last)
    moments = [failure.failed_at for failure in told.heard]
    assert moments[2] < moments[0], "it was the first to fail"


async def test_a_failure_that_is_rolled_back_is_not_told(
    stream: Streams, db: Db, another: Db
) -> None:
    told = await stream("1h").listens()
    fail(another)
    another.rollback()
    await told.told(fail(db))


async def test_everyone_who_listens_is_told_of_every_failure(stream: Streams, db: Db) -> None:
    streams = [stream("1h") for _ in range(3)]
    failed = [fail(db) for _ in range(5)]
    for told in streams:
        await told.told(*failed)


async def test_without_notifications_it_is_found_by_looking(
    dsn: str, schema: str, stream: Streams, db: Db
) -> None:
    async with Headway(dsn, schema=schema, notify=False) as quiet:
        told = await stream(None, quiet).listens()
        await told.told(*[fail(db) for _ in range(2)])
        await told.close()


async def test_g7_none_is_lost_or_doubled_while_connections_are_cut(
    stream: Streams, db: Db
) -> None:
    """The listener's and the pool's, again and again, in the middle of a row of failures."""
    cut = """select count(pg_terminate_backend(pid)) from pg_stat_activity
             where datname = current_database() and application_name = 'headway'"""
    told = stream("1h")
    failed, ended = [], 0
    for number in range(24):
        failed.append(fail(db, str(number)))
        if number % 4 == 3:
            await told.told(*failed)
            ended += (db.execute(cut).fetchone() or (0,))[0]
    failed.append(fail(db, "last"))
    await told.told(*failed)
    assert ended >= 6, "there was something to cut"


async def test_a_stream_that_is_closed_leaves_nothing_behind(hw: Headway, db: Db) -> None:
    before = asyncio.all_tasks()
    stream = hw.failures("1h")
    failed = fail(db)
    assert (await anext(stream)).job_id == failed
    waits = asyncio.create_task(anext(stream))
    results = await hw._session.results()
    while "failed" not in results._waiting:
        await asyncio.sleep(0.01)
    waits.cancel()
    await asyncio.wait([waits])
    await stream.aclose()
    assert results._waiting == {}
    await hw.close()
    assert {task for task in asyncio.all_tasks() - before if not task.done()} == set()
