"""Connections of asyncpg, including those from a pool."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from headway.store.caller.connection import (
    AsyncCallerConnection,
    Params,
    async_only,
    closed,
    failures,
    kinds,
    no_connection,
)
from headway.store.caller.placeholders import numbered
from headway.store.statement import Row


class Asyncpg:
    """An `asyncpg.Connection`."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def rows(self, sql: str, params: Params) -> list[Row]:
        text, values = numbered(sql, params)
        return [tuple(record) for record in await self._conn.fetch(text, *values)]

    async def count(self, sql: str, params: Params) -> int:
        text, values = numbered(sql, params)
        status: str = await self._conn.execute(text, *values)  # such as INSERT 0 1
        return int(status.rpartition(" ")[2])

    def together(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext() if self._conn.is_in_transaction() else self._conn.transaction()


def wrap(conn: object) -> None:
    """Raise ConfigError for objects of asyncpg: it has no sync connections."""
    if _is_connection(conn):
        raise async_only(conn)
    _check_pool(conn)


def wrap_async(conn: Any) -> AsyncCallerConnection | None:
    """Return a wrapper of an asyncpg connection, or None if `conn` is not from asyncpg."""
    if _is_connection(conn):
        if _is_closed(conn):
            raise closed(conn)
        return Asyncpg(conn)
    _check_pool(conn)
    return None


def _is_connection(conn: object) -> bool:
    # asyncpg overrides isinstance so that a pool's proxy counts as a connection. Name both anyway.
    return isinstance(
        conn,
        kinds("asyncpg.connection", "Connection") + kinds("asyncpg.pool", "PoolConnectionProxy"),
    )


def _is_closed(conn: Any) -> bool:
    try:
        return bool(conn.is_closed())
    except failures("asyncpg", "InterfaceError"):  # raised by a proxy that was released
        return True


def _check_pool(conn: object) -> None:
    if isinstance(conn, kinds("asyncpg.pool", "Pool")):
        raise no_connection(conn, instead="pass the one that pool.acquire() returns")
