"""Connections of asyncpg, also those that a pool hands out."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from headway.store.borrowed.lent import (
    AsyncLent,
    Params,
    async_only,
    closed,
    failures,
    kinds,
    no_connection,
)
from headway.store.borrowed.placeholders import numbered
from headway.store.statement import Row


class Asyncpg:
    """An `asyncpg.Connection`."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def rows(self, sql: str, params: Params) -> list[Row]:
        text, values = numbered(sql, params)
        return [tuple(record) for record in await self._conn.fetch(text, *values)]

    def together(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext() if self._conn.is_in_transaction() else self._conn.transaction()


def lend(conn: object) -> None:
    """Refuses what is asyncpg's: it has no sync connections."""
    if _is_connection(conn):
        raise async_only(conn)
    _check_pool(conn)


def lend_async(conn: Any) -> AsyncLent | None:
    """A connection of asyncpg; none if `conn` has nothing to do with it."""
    if _is_connection(conn):
        if _is_closed(conn):
            raise closed(conn)
        return Asyncpg(conn)
    _check_pool(conn)
    return None


def _is_connection(conn: object) -> bool:
    # asyncpg has its own idea of isinstance, in which a pool's proxy is a connection too; both are
    # named all the same.
    return isinstance(
        conn,
        kinds("asyncpg.connection", "Connection") + kinds("asyncpg.pool", "PoolConnectionProxy"),
    )


def _is_closed(conn: Any) -> bool:
    try:
        return bool(conn.is_closed())
    except failures("asyncpg", "InterfaceError"):  # a proxy that was released answers nothing
        return True


def _check_pool(conn: object) -> None:
    if isinstance(conn, kinds("asyncpg.pool", "Pool")):
        raise no_connection(conn, instead="give the one that pool.acquire() hands out")
