"""Connections of psycopg 3, the caller's and our own alike."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any, LiteralString, TypeGuard

from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

from headway.store.borrowed.lent import Params, async_only, closed, kinds, no_connection, sync_only
from headway.store.statement import Row


class Psycopg:
    """A `psycopg.Connection`."""

    def __init__(self, conn: Connection[Any]) -> None:
        self._conn = conn

    def rows(self, sql: LiteralString, params: Params) -> list[Row]:
        with self._conn.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(sql, params).fetchall()

    def together(self) -> AbstractContextManager[Any]:
        # Without autocommit the caller's transaction is open already, or opens now: a block of
        # ours would commit what is theirs to commit.
        return self._conn.transaction() if self._conn.autocommit else nullcontext()


class AsyncPsycopg:
    """A `psycopg.AsyncConnection`."""

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        self._conn = conn

    async def rows(self, sql: LiteralString, params: Params) -> list[Row]:
        async with self._conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(sql, params)
            return await cursor.fetchall()

    def together(self) -> AbstractAsyncContextManager[Any]:
        return self._conn.transaction() if self._conn.autocommit else nullcontext()


def lend(conn: object) -> Psycopg | None:
    """A sync connection of psycopg; none if `conn` has nothing to do with it."""
    if _is_sync(conn):
        _check_open(conn)
        return Psycopg(conn)
    if _is_async(conn):
        raise async_only(conn)
    _check_pool(conn)
    return None


def lend_async(conn: object) -> AsyncPsycopg | None:
    """An async connection of psycopg; none if `conn` has nothing to do with it."""
    if _is_async(conn):
        _check_open(conn)
        return AsyncPsycopg(conn)
    if _is_sync(conn):
        raise sync_only(conn)
    _check_pool(conn)
    return None


def _is_sync(conn: object) -> TypeGuard[Connection[Any]]:
    return isinstance(conn, Connection)


def _is_async(conn: object) -> TypeGuard[AsyncConnection[Any]]:
    return isinstance(conn, AsyncConnection)


def _check_open(conn: Connection[Any] | AsyncConnection[Any]) -> None:
    # What the server or the network ended is broken as well: then psycopg says so, in an error
    # that the caller may know how to meet.
    if conn.closed and not conn.broken:
        raise closed(conn)


def _check_pool(conn: object) -> None:
    if isinstance(conn, kinds("psycopg_pool", "ConnectionPool", "AsyncConnectionPool")):
        raise no_connection(conn, instead="give the one that pool.connection() hands out")
