"""Where every statement commits by itself: one does, and several are made one or refused."""

from __future__ import annotations

from typing import Any

import asyncpg
import psycopg
import pytest
from django.db import connection
from sqlalchemy import text

from headway.errors import ConfigError
from headway.store.caller import CallerConnection, wrap, wrap_async
from tests.caller.on_django import configured
from tests.caller.on_sqlalchemy import async_engine, sync_engine
from tests.caller.transactions import server

Database = psycopg.Connection[Any]


@pytest.fixture
def insert(work_table: str) -> Any:
    """A statement that writes, as ours do."""
    return (
        f"with made as (insert into {work_table} values (%(text)s) returning text) "
        "select text from made"
    )


@pytest.fixture
def written(db: Database) -> Any:
    query = "select text from callers.work order by text"
    return lambda: [text for (text,) in db.execute(query)]


def _fail_after(insert: Any, wrapped: CallerConnection) -> None:
    with wrapped.together():
        wrapped.rows(insert, {"text": "lost"})
        wrapped.rows("select 1/0", {})


async def test_on_asyncpg_several_are_one(dsn: str, insert: Any, written: Any) -> None:
    conn = await asyncpg.connect(**server(dsn))
    wrapped = wrap_async(conn)
    assert await wrapped.rows(insert, {"text": "alone"}) == [("alone",)]
    assert written() == ["alone"]

    async def fail() -> None:
        async with wrapped.together():
            await wrapped.rows(insert, {"text": "lost"})
            await wrapped.rows("select 1/0", {})

    with pytest.raises(asyncpg.DivisionByZeroError):
        await fail()
    assert written() == ["alone"]
    async with wrapped.together():
        await wrapped.rows(insert, {"text": "kept"})
    await conn.execute("begin")  # as text, past asyncpg's own transactions
    async with wrapped.together():
        await wrapped.rows(insert, {"text": "undone"})
    await conn.execute("rollback")
    assert written() == ["alone", "kept"]
    await conn.close()


def test_on_psycopg_several_are_one(dsn: str, insert: Any, written: Any) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        wrapped = wrap(conn)
        with pytest.raises(psycopg.errors.DivisionByZero):
            _fail_after(insert, wrapped)
        with wrapped.together():
            wrapped.rows(insert, {"text": "kept"})
    assert written() == ["kept"]


def test_on_django_several_are_one(dsn: str, insert: Any, written: Any) -> None:
    with configured(dsn):
        wrapped = wrap("default")
        assert wrapped.rows(insert, {"text": "alone"}) == [("alone",)]
        assert written() == ["alone"]
        with pytest.raises(Exception, match="division by zero"):
            _fail_after(insert, wrapped)
        with wrapped.together():
            wrapped.rows(insert, {"text": "kept"})
        assert connection.get_autocommit()
    assert written() == ["alone", "kept"]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_on_sqlalchemy_one_is_fine_and_several_are_refused(
    dsn: str, insert: Any, written: Any, driver: str
) -> None:
    engine = sync_engine(dsn, driver, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        wrap(conn).rows(insert, {"text": "alone"})
        assert written() == ["alone"]
        with pytest.raises(ConfigError, match="AUTOCOMMIT"), wrap(conn).together():
            pytest.fail("nothing of it is begun")


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_the_same_on_async_sqlalchemy(
    dsn: str, insert: Any, written: Any, driver: str
) -> None:
    engine = async_engine(dsn, driver, isolation_level="AUTOCOMMIT")
    async with engine.connect() as conn:
        await wrap_async(conn).rows(insert, {"text": "alone"})
        assert written() == ["alone"]
        with pytest.raises(ConfigError, match="AUTOCOMMIT"):
            async with wrap_async(conn).together():
                pytest.fail("nothing of it is begun")


@pytest.mark.parametrize("options", [{"stream_results": True}, {"yield_per": 10}])
def test_a_connection_that_streams_results_can_be_passed_as_well(
    dsn: str, insert: Any, written: Any, options: dict[str, Any]
) -> None:
    """A cursor on the server cannot be declared for a statement that writes."""
    with sync_engine(dsn, "psycopg2").connect().execution_options(**options) as conn:
        assert wrap(conn).rows(insert, {"text": "kept"}) == [("kept",)]
        assert conn.execute(text("select 1")).scalar() == 1
        conn.commit()
    assert written() == ["kept"]


async def test_a_sync_session_on_an_async_driver_is_a_sync_one(
    dsn: str, insert: Any, written: Any
) -> None:
    """As `run_sync` hands it out."""
    async with async_engine(dsn, "asyncpg").connect() as conn:
        rows = await conn.run_sync(lambda sync: wrap(sync).rows(insert, {"text": "lost"}))
        assert rows == [("lost",)]
        await conn.rollback()
    assert written() == []
