"""Transactions of asyncpg."""

from __future__ import annotations

import json
from typing import Any

import asyncpg

from tests.caller.transactions import AsyncTransaction, server


class OnAsyncpg(AsyncTransaction):
    library = "asyncpg"

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.conn: Any = self.run(self._connect(dsn))
        self._transaction = self.conn.transaction()
        self.run(self._transaction.start())

    async def _connect(self, dsn: str) -> Any:
        return await asyncpg.connect(**server(dsn))

    def execute(self, sql: str) -> None:
        self.run(self.conn.execute(sql))

    def commit(self) -> None:
        self.run(self._transaction.commit())

    def rollback(self) -> None:
        self.run(self._transaction.rollback())

    def close(self) -> None:
        self.run(self.conn.close())
        super().close()


class OnAsyncpgWithCodecs(OnAsyncpg):
    """Documents are Python objects on this connection, as many programs have it."""

    async def _connect(self, dsn: str) -> Any:
        conn = await super()._connect(dsn)
        await conn.set_type_codec(
            "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
        )
        return conn


class OnAsyncpgPool(OnAsyncpg):
    async def _connect(self, dsn: str) -> Any:
        self._pool = await asyncpg.create_pool(**server(dsn), min_size=1, max_size=1)
        return await self._pool.acquire()

    def close(self) -> None:
        self.run(self._pool.release(self.conn))
        self.run(self._pool.close())
        AsyncTransaction.close(self)
