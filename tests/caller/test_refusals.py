"""An unsuitable `conn` is refused before any statement. The error says what to pass instead."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from headway.errors import ConfigError
from headway.store.caller import wrap, wrap_async
from tests.caller.on_django import configured
from tests.caller.on_sqlalchemy import async_engine, sync_engine
from tests.caller.transactions import server


def _refused(conn: Any, words: str) -> None:
    """Both ways: the reason is the same, sync or async."""
    for way in (wrap, wrap_async):
        with pytest.raises(ConfigError, match=words):
            way(conn)


@pytest.mark.parametrize("wrong", [object(), 5, psycopg, b"default"])
def test_what_is_no_connection_at_all(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="pass one of psycopg, SQLAlchemy or Django"):
        wrap(wrong)
    with pytest.raises(ConfigError, match="pass one of psycopg, asyncpg or SQLAlchemy"):
        wrap_async(wrong)


def test_a_dsn_is_not_repeated_because_it_may_hold_a_password() -> None:
    for dsn in ("postgresql://ada:secret@db/shop", "host=db password=secret"):
        for way in (wrap, wrap_async):
            with pytest.raises(ConfigError, match="pass an open connection") as found:
                way(dsn)
            assert "secret" not in str(found.value)


async def test_what_hands_out_connections_is_none(dsn: str) -> None:
    _refused(ConnectionPool(dsn, open=False), r"pool\.connection\(\)")
    _refused(AsyncConnectionPool(dsn, open=False), r"pool\.connection\(\)")
    async with asyncpg.create_pool(**server(dsn), min_size=0) as pool:
        _refused(pool, r"pool\.acquire\(\)")
    engine, other = sync_engine(dsn, "psycopg"), async_engine(dsn, "asyncpg")
    _refused(engine, r"with engine\.begin\(\) as conn")
    _refused(other, r"with engine\.begin\(\) as conn")
    _refused(engine.pool, "of its engine")
    _refused(sessionmaker(engine), "the session that it returns")
    _refused(async_sessionmaker(other), "the session that it returns")


# -- closed ---------------------------------------------------------------------------------------


async def _closed_psycopg(dsn: str) -> Any:
    conn = await psycopg.AsyncConnection.connect(dsn)
    await conn.close()
    return conn


async def _closed_asyncpg(dsn: str) -> Any:
    conn = await asyncpg.connect(**server(dsn))
    await conn.close()
    return conn


async def _released_to_its_pool(dsn: str) -> Any:
    async with asyncpg.create_pool(**server(dsn), min_size=1, max_size=1) as pool:
        async with pool.acquire() as conn:
            pass
        return conn


async def _closed_sqlalchemy(dsn: str) -> Any:
    async with async_engine(dsn, "asyncpg").connect() as conn:
        pass
    return conn


@pytest.mark.parametrize(
    "close", [_closed_psycopg, _closed_asyncpg, _released_to_its_pool, _closed_sqlalchemy]
)
async def test_an_async_connection_that_was_closed(
    dsn: str, close: Callable[[str], Awaitable[Any]]
) -> None:
    conn = await close(dsn)
    with pytest.raises(ConfigError, match="is closed"):
        wrap_async(conn)


def test_a_sync_connection_that_was_closed(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        pass
    with sync_engine(dsn, "psycopg2").connect() as other:
        pass
    for closed in (conn, other):
        with pytest.raises(ConfigError, match="is closed"):
            wrap(closed)


async def test_a_connection_of_sqlalchemy_that_nobody_opened(dsn: str) -> None:
    with pytest.raises(ConfigError, match=r"await engine\.connect\(\)"):
        wrap_async(async_engine(dsn, "asyncpg").connect())


def test_a_connection_that_the_server_ended_is_psycopgs_to_speak_of(
    dsn: str, db: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(dsn) as conn:
        db.execute("select pg_terminate_backend(%s, 30000)", [conn.info.backend_pid])
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError):
                wrap(conn).rows("select 1", {})


# -- the wrong database ---------------------------------------------------------------------------


def test_an_alias_that_django_does_not_know(dsn: str) -> None:
    with configured(dsn):
        with pytest.raises(ConfigError, match="'nowhere' is not an alias in DATABASES"):
            wrap("nowhere")
        with pytest.raises(ConfigError, match=r"'elsewhere' is not to PostgreSQL \(sqlite\)"):
            wrap("elsewhere")
        with pytest.raises(ConfigError, match="sync_to_async"):
            wrap_async("default")


def test_sqlalchemy_on_another_database() -> None:
    with create_engine("sqlite://").connect() as conn:
        with pytest.raises(ConfigError, match=re.escape("is on sqlite+pysqlite; pass one on")):
            wrap(conn).rows("select 1", {})
        with pytest.raises(ConfigError, match=re.escape("is on sqlite+pysqlite; pass one on")):
            wrap(Session(conn)).rows("select 1", {})


async def test_a_session_of_no_one_database() -> None:
    with pytest.raises(ConfigError, match=r"session\.connection\(bind_arguments=\.\.\.\)"):
        wrap(Session()).rows("select 1", {})
    with pytest.raises(ConfigError, match=r"session\.connection\(bind_arguments=\.\.\.\)"):
        await wrap_async(AsyncSession()).rows("select 1", {})
