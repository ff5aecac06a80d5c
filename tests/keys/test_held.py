"""B6: a unique key that an open transaction holds is waited for, but not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headway import Headway, Task, Unique
from headway.errors import DatabaseUnavailable
from headway.store.connections import pool
from tests.crash.pooler import Pooler


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.store.connections.client.LOCK_WITHIN", 0.5)


@pytest.fixture
async def holder(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A connection whose transaction stays open."""
    named = make_conninfo(dsn, application_name="myapp")
    async with await psycopg.AsyncConnection.connect(named) as conn:
        yield conn
        await conn.rollback()


def _reindex(hw: Headway) -> Task[..., Any]:
    @hw.task(unique=lambda doc: f"reindex-{doc}")
    async def reindex(doc: int) -> None: ...

    return reindex


def _names_the_holder(error: DatabaseUnavailable, holder: psycopg.AsyncConnection[Any]) -> bool:
    said = f"is still open (pid {holder.info.backend_pid}, myapp, idle in transaction for "
    return "unique key 'reindex-1' is held" in str(error) and said in str(error)


@pytest.mark.parametrize("how", ["async", "sync"])
async def test_b6_an_enqueue_waits_once_for_a_held_key_and_names_the_transaction(
    hw: Headway, holder: psycopg.AsyncConnection[Any], how: str
) -> None:
    reindex = _reindex(hw)
    first = await reindex.using(conn=holder).enqueue(1)
    with pytest.raises(DatabaseUnavailable) as found:
        await (reindex.enqueue(1) if how == "async" else asyncio.to_thread(reindex.enqueue_sync, 1))
    assert _names_the_holder(found.value, holder)
    await holder.commit()
    assert await reindex.enqueue(1) == first


async def test_b6_behind_a_pooler_it_is_the_same(
    dsn: str, schema: str, holder: psycopg.AsyncConnection[Any]
) -> None:
    with Pooler(dsn, size=2) as pooler:
        async with Headway(pooler.dsn, schema=schema) as app:
            reindex = _reindex(app)
            await reindex.using(conn=holder).enqueue(1)
            for call in (reindex.enqueue, lambda n: asyncio.to_thread(reindex.enqueue_sync, n)):
                with pytest.raises(DatabaseUnavailable) as found:
                    await call(1)
                assert _names_the_holder(found.value, holder)
            await holder.rollback()
            assert (await reindex.enqueue(1)).created


async def test_b6_the_wait_in_the_callers_own_transaction_is_the_callers(
    hw: Headway, dsn: str, holder: psycopg.AsyncConnection[Any]
) -> None:
    reindex = _reindex(hw)
    async with await psycopg.AsyncConnection.connect(dsn) as own:
        await own.execute("set lock_timeout = '77s'")
        await reindex.using(conn=own).enqueue(1)
        shown = await (await own.execute("show lock_timeout")).fetchone()
        assert shown == ("77s",)


async def test_b6_a_key_for_a_period_is_named_as_well(
    hw: Headway, holder: psycopg.AsyncConnection[Any]
) -> None:
    @hw.task(unique=Unique("reindex-1", period="1h"))
    async def reindex() -> None: ...

    await reindex.using(conn=holder).enqueue()
    with pytest.raises(DatabaseUnavailable) as found:
        await reindex.enqueue()
    assert _names_the_holder(found.value, holder)


def test_b6_sessions_of_the_app_wait_ten_seconds_by_themselves() -> None:
    assert pool.LOCK_WITHIN == 10.0
