"""Connections of psycopg 3, both the caller's and our own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any, LiteralString, TypeGuard

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.rows import tuple_row

from headway.store.caller.connection import (
    Params,
    async_only,
    closed,
    kinds,
    no_connection,
    sync_only,
)
from headway.store.statement import Row


class Psycopg:
    """A `psycopg.Connection`."""

    def __init__(self, conn: Connection[Any]) -> None:
        self._conn = conn

    def rows(self, sql: LiteralString, params: Params) -> list[Row]:
        cursor = self._conn.cursor(row_factory=tuple_row)
        cursor.execute(sql, params)
        return cursor.fetchall() if _has_rows(cursor) else []

    def count(self, sql: LiteralString, params: Params) -> int:
        return self._conn.cursor(row_factory=tuple_row).execute(sql, params).rowcount

    def together(self) -> AbstractContextManager[Any]:
        # Without autocommit the caller's transaction is already open, or opens now. A block here would
        # commit it, and only the caller may do that.
        return self._conn.transaction() if self._conn.autocommit else nullcontext()


class AsyncPsycopg:
    """A `psycopg.AsyncConnection`."""

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        self._conn = conn

    async def rows(self, sql: LiteralString, params: Params) -> list[Row]:
        cursor = self._conn.cursor(row_factory=tuple_row)
        await cursor.execute(sql, params)
        return await cursor.fetchall() if _has_rows(cursor) else []

    async def count(self, sql: LiteralString, params: Params) -> int:
        cursor = self._conn.cursor(row_factory=tuple_row)
        await cursor.execute(sql, params)
        return cursor.rowcount

    def together(self) -> AbstractAsyncContextManager[Any]:
        return self._conn.transaction() if self._conn.autocommit else nullcontext()


def wrap(conn: object) -> Psycopg | None:
    """Return a wrapper of a sync psycopg connection, or None if `conn` is not from psycopg."""
    if _is_sync(conn):
        _check_open(conn)
        return Psycopg(conn)
    if _is_async(conn):
        raise async_only(conn)
    _check_pool(conn)
    return None


def wrap_async(conn: object) -> AsyncPsycopg | None:
    """Return a wrapper of an async psycopg connection, or None if `conn` is not from psycopg."""
    if _is_async(conn):
        _check_open(conn)
        return AsyncPsycopg(conn)
    if _is_sync(conn):
        raise sync_only(conn)
    _check_pool(conn)
    return None


def _has_rows(cursor: Cursor[Any] | AsyncCursor[Any]) -> bool:
    # An INSERT without RETURNING has a result without columns, from which psycopg fetches nothing.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _is_sync(conn: object) -> TypeGuard[Connection[Any]]:
    return isinstance(conn, Connection)


def _is_async(conn: object) -> TypeGuard[AsyncConnection[Any]]:
    return isinstance(conn, AsyncConnection)


def _check_open(conn: Connection[Any] | AsyncConnection[Any]) -> None:
    # A connection that the server or the network ended is also broken. psycopg then raises its own error,
    # which the caller may know how to handle.
    if conn.closed and not conn.broken:
        raise closed(conn)


def _check_pool(conn: object) -> None:
    if isinstance(conn, kinds("psycopg_pool", "ConnectionPool", "AsyncConnectionPool")):
        raise no_connection(conn, instead="pass the one that pool.connection() returns")
