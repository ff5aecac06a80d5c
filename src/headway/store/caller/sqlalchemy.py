"""Connections and sessions of SQLAlchemy 2, on psycopg, psycopg2 or asyncpg.

Always through SQLAlchemy and never on the driver's connection below it: on asyncpg SQLAlchemy begins
the transaction with the first statement that it sends itself, so that one sent past it would commit
at once and outlive a rollback.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import (
    asynccontextmanager,
    contextmanager,
)
from typing import Any

from headway.errors import ConfigError
from headway.store.borrowed.lent import (
    AsyncLent,
    Lent,
    Params,
    async_only,
    closed,
    failures,
    kinds,
    no_connection,
    sync_only,
)
from headway.store.borrowed.placeholders import numbered
from headway.store.statement import Row

# A server-side cursor, which the caller may have asked for, cannot be declared for a statement that
# writes.
_OPTIONS: dict[str, Any] = {"stream_results": False, "yield_per": None}


class Sqlalchemy:
    """A `Connection` or a `Session`."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def rows(self, sql: str, params: Params) -> list[Row]:
        return _rows(self._conn, sql, params)

    @contextmanager
    def together(self) -> Generator[None]:
        _check_transaction(self._conn)
        yield


class AsyncSqlalchemy:
    """An `AsyncConnection` or an `AsyncSession`."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def rows(self, sql: str, params: Params) -> list[Row]:
        rows: list[Row] = await self._conn.run_sync(_rows, sql, params)
        return rows

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[None]:
        await self._conn.run_sync(_check_transaction)
        yield


def lend(conn: Any) -> Lent | None:
    """A sync connection or session; none if `conn` has nothing to do with SQLAlchemy."""
    if isinstance(conn, kinds("sqlalchemy.orm", "scoped_session")):
        conn = conn()
    if isinstance(conn, _sync_kinds()):
        if getattr(conn, "closed", False):
            raise closed(conn)
        return Sqlalchemy(conn)
    if isinstance(conn, _async_kinds()):
        raise async_only(conn)
    _check_factory(conn)
    return None


def lend_async(conn: Any) -> AsyncLent | None:
    """An async connection or session; none if `conn` has nothing to do with SQLAlchemy."""
    if isinstance(conn, kinds("sqlalchemy.ext.asyncio", "async_scoped_session")):
        conn = conn()
    if isinstance(conn, _async_kinds()):
        if isinstance(conn, kinds("sqlalchemy.ext.asyncio", "AsyncConnection")):
            _check_open(conn)
        return AsyncSqlalchemy(conn)
    if isinstance(conn, _sync_kinds()):
        raise sync_only(conn)
    _check_factory(conn)
    return None


def _sync_kinds() -> tuple[type[Any], ...]:
    return (
        *kinds("sqlalchemy.engine", "Connection"),
        *kinds("sqlalchemy.orm", "Session", "scoped_session"),
    )


def _async_kinds() -> tuple[type[Any], ...]:
    return kinds(
        "sqlalchemy.ext.asyncio", "AsyncConnection", "AsyncSession", "async_scoped_session"
    )


def _check_open(conn: Any) -> None:
    if conn.sync_connection is None:
        raise no_connection(conn, instead="it was never opened; await engine.connect()")
    if conn.closed:
        raise closed(conn)


def _check_factory(conn: object) -> None:
    if isinstance(
        conn,
        kinds("sqlalchemy.engine", "Engine") + kinds("sqlalchemy.ext.asyncio", "AsyncEngine"),
    ):
        raise no_connection(conn, instead="give the one of `with engine.begin() as conn`")
    if isinstance(
        conn,
        kinds("sqlalchemy.orm", "sessionmaker")
        + kinds("sqlalchemy.ext.asyncio", "async_sessionmaker"),
    ):
        raise no_connection(conn, instead="call it, and give the session that it makes")
    if isinstance(conn, kinds("sqlalchemy.pool", "Pool")):
        raise no_connection(conn, instead="give a connection of its engine")


def _connection(conn: Any) -> Any:
    """The `Connection` itself, of a session too, whose transaction begins here if it has not."""
    if isinstance(conn, kinds("sqlalchemy.orm", "Session")):
        try:
            conn = conn.connection()
        except failures("sqlalchemy.exc", "UnboundExecutionError") as error:
            raise ConfigError(
                f"conn={conn!r} is bound to no one database; "
                "give session.connection(bind_arguments=...)"
            ) from error
    return conn


def _rows(conn: Any, sql: str, params: Params) -> list[Row]:
    connection = _connection(conn)
    dialect = connection.dialect
    given: Any = dict(params)
    if dialect.driver == "asyncpg":
        sql, given = numbered(sql, params)
    elif dialect.name != "postgresql" or not dialect.driver.startswith("psycopg"):
        raise ConfigError(
            f"conn={conn!r} is on {dialect.name}+{dialect.driver}; give one on "
            "postgresql+psycopg, postgresql+psycopg2 or postgresql+asyncpg"
        )
    result = connection.exec_driver_sql(sql, given, execution_options=_OPTIONS)
    return [tuple(row) for row in result.fetchall()]


def _check_transaction(conn: Any) -> None:
    if _connection(conn).connection.dbapi_connection.autocommit:
        raise ConfigError(
            f"conn={conn!r} is in AUTOCOMMIT, where this many jobs cannot be made all or none; "
            "give one in a transaction, or leave out conn"
        )
