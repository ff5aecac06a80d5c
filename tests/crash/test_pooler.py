"""Behind a transaction pooler everything works but LISTEN, and polling takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.store.connect import Target, complete_dsn
from headway.store.listen import Deaf, Listener
from tests.crash.count import assert_each_finished_once, unfinished
from tests.crash.pooler import Pooler
from tests.crash.producers import producing
from tests.crash.tasks import register
from tests.support import eventually


@pytest.fixture
def pooler(dsn: str) -> Iterator[Pooler]:
    with Pooler(dsn, size=4) as pooler:
        yield pooler


@pytest.fixture
async def pooled(pooler: Pooler, schema: str) -> AsyncIterator[Headway]:
    app = register(Headway(pooler.dsn, schema=schema))
    yield app
    await app.close()


@pytest.mark.parametrize("busy", [False, True])
async def test_a_listener_behind_a_pooler_knows_that_it_is_deaf(
    pooler: Pooler, schema: str, busy: bool
) -> None:
    """Also when what it says to itself happens on the very connection that took its LISTEN."""
    target = Target(complete_dsn(pooler.dsn), schema)
    listener = Listener(target, target.work_channel or "")
    others = [await psycopg.AsyncConnection.connect(pooler.dsn) for _ in range(3 if busy else 0)]
    for other in others:
        await other.execute("select 1")  # holds its server connection
    with pytest.raises(Deaf):
        await listener.open()
    for other in others:
        await other.close()


async def test_a_listener_with_a_connection_of_its_own_hears(dsn: str, schema: str) -> None:
    target = Target(complete_dsn(dsn), schema)
    listener = Listener(target, target.work_channel or "")
    await listener.open()
    heard = asyncio.ensure_future(anext(listener.heard()))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute("select pg_notify(%s, 'later')", (target.work_channel,))
    assert await asyncio.wait_for(heard, 60) == "later"
    await listener.close()


@pytest.mark.slow
async def test_g3_workers_and_producers_behind_a_pooler_lose_and_double_nothing(
    pooled: Headway, pooler: Pooler, db: psycopg.Connection[Any], worker
) -> None:
    """Four server connections for two workers and a dozen producers; some jobs fail and are retried."""
    workers = [worker(dsn=pooler.dsn, SIDE_DSN=pooler.dsn) for _ in range(2)]
    async with producing(pooled, 12) as producers:
        await eventually(lambda: len(producers.made) > 500, within=60)
    await eventually(lambda: unfinished(db) == 0, within=60)
    producers.assert_kept(db)
    assert producers.unsure == []
    db.execute("delete from archive")

    flaky = await pooled.tasks["flaky"].enqueue_many({"n": n} for n in range(50))
    late = await pooled.tasks["echo"].using(delay="300ms").enqueue(1)
    assert await late.result(timeout="60s") == 1
    await eventually(lambda: unfinished(db) == 0, within=60)
    assert_each_finished_once(db, [*flaky, late])
    await eventually(lambda: all("polling instead" in each.output() for each in workers))
    assert [each.process.poll() for each in workers] == [None, None]
    assert pooler.transactions > len(producers.made), "they went another way"
