"""Transactions of SQLAlchemy, begun by the first thing that is said in them."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from tests.caller.transactions import AsyncTransaction, Transaction, server


def sync_engine(dsn: str, driver: str, **options: Any) -> Engine:
    return create_engine(
        f"postgresql+{driver}://", connect_args=conninfo_to_dict(dsn), poolclass=NullPool, **options
    )


def async_engine(dsn: str, driver: str, **options: Any) -> AsyncEngine:
    where = server(dsn) if driver == "asyncpg" else conninfo_to_dict(dsn)
    return create_async_engine(
        f"postgresql+{driver}://", connect_args=where, poolclass=NullPool, **options
    )


class OnConnection(Transaction):
    library = "sqlalchemy"

    def __init__(self, dsn: str, driver: str) -> None:
        self.conn = self._open(sync_engine(dsn, driver))

    def _open(self, engine: Engine) -> Any:
        return engine.connect()

    def execute(self, sql: str) -> None:
        self.conn.execute(text(sql))

    def savepoint(self) -> None:
        self._nested = self.conn.begin_nested()

    def rollback_to_savepoint(self) -> None:
        self._nested.rollback()

    def commit(self) -> None:
        self.conn.commit()

    def rollback(self) -> None:
        self.conn.rollback()

    def close(self) -> None:
        self.conn.close()


class OnSession(OnConnection):
    def _open(self, engine: Engine) -> Any:
        return Session(engine)


class OnScopedSession(OnConnection):
    def _open(self, engine: Engine) -> Any:
        return scoped_session(sessionmaker(engine))

    def close(self) -> None:
        self.conn.remove()


class OnAsyncConnection(AsyncTransaction):
    library = "sqlalchemy"

    def __init__(self, dsn: str, driver: str) -> None:
        super().__init__()
        self._engine = async_engine(dsn, driver)
        self.conn = self.run(self._open())

    async def _open(self) -> Any:
        return await self._engine.connect()

    def execute(self, sql: str) -> None:
        self.run(self.conn.execute(text(sql)))

    def savepoint(self) -> None:
        async def begin() -> Any:
            return await self.conn.begin_nested()

        self._nested = self.run(begin())

    def rollback_to_savepoint(self) -> None:
        self.run(self._nested.rollback())

    def commit(self) -> None:
        self.run(self.conn.commit())

    def rollback(self) -> None:
        self.run(self.conn.rollback())

    def close(self) -> None:
        self.run(self.conn.close())
        self.run(self._engine.dispose())
        super().close()


class OnAsyncSession(OnAsyncConnection):
    async def _open(self) -> Any:
        return AsyncSession(self._engine)
