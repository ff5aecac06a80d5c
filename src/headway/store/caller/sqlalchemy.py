"""Connections and sessions of SQLAlchemy 2, on psycopg, psycopg2 or asyncpg.

Statements always go through SQLAlchemy, never through the driver's connection. On asyncpg, SQLAlchemy
begins the transaction with the first statement that it sends itself. A statement that bypassed it would
commit at once and survive a rollback.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import (
    asynccontextmanager,
    contextmanager,
)
from typing import Any

from headway.errors import ConfigError
from headway.store.caller.connection import (
    AsyncCallerConnection,
    CallerConnection,
    Params,
    async_only,
    closed,
    failures,
    kinds,
    no_connection,
    sync_only,
)
from headway.store.caller.placeholders import numbered
from headway.store.statement import Row

# The caller may have requested server-side cursors, but a statement that writes cannot use one.
_OPTIONS: dict[str, Any] = {"stream_results": False, "yield_per": None, "preserve_rowcount": True}


class Sqlalchemy:
    """A `Connection` or a `Session`."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def rows(self, sql: str, params: Params) -> list[Row]:
        return _rows(self._conn, sql, params)

    def count(self, sql: str, params: Params) -> int:
        return _count(self._conn, sql, params)

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

    async def count(self, sql: str, params: Params) -> int:
        return int(await self._conn.run_sync(_count, sql, params))

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[None]:
        await self._conn.run_sync(_check_transaction)
        yield


def wrap(conn: Any) -> CallerConnection | None:
    """Return a wrapper of a sync connection or session, or None if `conn` is not from SQLAlchemy."""
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


def wrap_async(conn: Any) -> AsyncCallerConnection | None:
    """Return a wrapper of an async connection or session, or None if `conn` is not from SQLAlchemy."""
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
        raise no_connection(conn, instead="pass the one of `with engine.begin() as conn`")
    if isinstance(
        conn,
        kinds("sqlalchemy.orm", "sessionmaker")
        + kinds("sqlalchemy.ext.asyncio", "async_sessionmaker"),
    ):
        raise no_connection(conn, instead="call it and pass the session that it returns")
    if isinstance(conn, kinds("sqlalchemy.pool", "Pool")):
        raise no_connection(conn, instead="pass a connection of its engine")


def _connection(conn: Any) -> Any:
    """Return the `Connection`, or that of a session. The session's transaction begins if necessary."""
    if isinstance(conn, kinds("sqlalchemy.orm", "Session")):
        try:
            conn = conn.connection()
        except failures("sqlalchemy.exc", "UnboundExecutionError") as error:
            raise ConfigError(
                f"conn={conn!r} is not bound to a single database; "
                "pass session.connection(bind_arguments=...)"
            ) from error
    return conn


def _rows(conn: Any, sql: str, params: Params) -> list[Row]:
    return [tuple(row) for row in _run(conn, sql, params).fetchall()]


def _count(conn: Any, sql: str, params: Params) -> int:
    return int(_run(conn, sql, params).rowcount)


def _run(conn: Any, sql: str, params: Params) -> Any:
    connection = _connection(conn)
    dialect = connection.dialect
    given: Any = dict(params)
    if dialect.driver == "asyncpg":
        sql, given = numbered(sql, params)
    elif dialect.name != "postgresql" or not dialect.driver.startswith("psycopg"):
        raise ConfigError(
            f"conn={conn!r} is on {dialect.name}+{dialect.driver}; pass one on "
            "postgresql+psycopg, postgresql+psycopg2 or postgresql+asyncpg"
        )
    return connection.exec_driver_sql(sql, given, execution_options=_OPTIONS)


def _check_transaction(conn: Any) -> None:
    if _connection(conn).connection.dbapi_connection.autocommit:
        raise ConfigError(
            f"conn={conn!r} is in AUTOCOMMIT, so several jobs cannot be made all or none; "
            "pass one in a transaction, or leave out conn"
        )
