"""One way to drive a transaction for every kind of connection that callers may pass.

Async kinds run on an event loop of their own, so that a test is written once, without `await`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headway import Task
from headway.store.caller import wrap, wrap_async
from headway.store.statement import Row

Calls = Sequence[Mapping[str, Any]]


class Transaction(ABC):
    """A transaction that has begun and in which nothing was said yet.

    `conn` is the argument of `using`. Work and savepoints go through the caller's library.
    """

    library: ClassVar[str]
    conn: Any

    @abstractmethod
    def execute(self, sql: str) -> None: ...
    @abstractmethod
    def commit(self) -> None: ...
    @abstractmethod
    def rollback(self) -> None: ...

    def savepoint(self) -> None:
        self.execute("savepoint inner_one")

    def rollback_to_savepoint(self) -> None:
        self.execute("rollback to savepoint inner_one")

    def enqueue(self, task: Task[Any, Any], text: str) -> Any:
        return task.using(conn=self.conn).enqueue_sync(text)

    def enqueue_many(self, task: Task[Any, Any], calls: Calls) -> Any:
        return task.using(conn=self.conn).enqueue_many_sync(calls)

    def rows(self, sql: Any, params: Mapping[str, Any]) -> Sequence[Row]:
        """Return what a statement of ours reads here."""
        return wrap(self.conn).rows(sql, params)

    def enqueue_the_other_way(self, task: Task[Any, Any]) -> None:
        """Awaits it, which a sync connection cannot be used for."""
        asyncio.run(task.using(conn=self.conn).enqueue("never"))

    @abstractmethod
    def close(self) -> None:
        """Gives back everything; an open transaction is lost. May be called again."""


class AsyncTransaction(Transaction):
    """As `Transaction`, on a loop of its own."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def enqueue(self, task: Task[Any, Any], text: str) -> Any:
        return self.run(task.using(conn=self.conn).enqueue(text))

    def enqueue_many(self, task: Task[Any, Any], calls: Calls) -> Any:
        return self.run(task.using(conn=self.conn).enqueue_many(calls))

    def rows(self, sql: Any, params: Mapping[str, Any]) -> Sequence[Row]:
        async def rows() -> Sequence[Row]:
            return await wrap_async(self.conn).rows(sql, params)

        return self.run(rows())

    def enqueue_the_other_way(self, task: Task[Any, Any]) -> None:
        task.using(conn=self.conn).enqueue_sync("never")

    def close(self) -> None:
        self._runner.close()


def server(dsn: str) -> dict[str, Any]:
    """Where the server is, by the names of asyncpg."""
    given = conninfo_to_dict(dsn)
    names = {"dbname": "database", "host": "host", "user": "user", "password": "password"}
    found: dict[str, Any] = {names[key]: given[key] for key in names if key in given}
    return found | ({"port": int(given["port"])} if "port" in given else {})


class OnPsycopg(Transaction):
    library = "psycopg"

    def __init__(self, dsn: str) -> None:
        self.conn = psycopg.connect(dsn)

    def execute(self, sql: str) -> None:
        self.conn.execute(sql)

    def commit(self) -> None:
        self.conn.commit()

    def rollback(self) -> None:
        self.conn.rollback()

    def close(self) -> None:
        self.conn.close()


class OnAsyncPsycopg(AsyncTransaction):
    library = "psycopg"

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.conn = self.run(psycopg.AsyncConnection.connect(dsn))

    def execute(self, sql: str) -> None:
        self.run(self.conn.execute(sql))

    def commit(self) -> None:
        self.run(self.conn.commit())

    def rollback(self) -> None:
        self.run(self.conn.rollback())

    def close(self) -> None:
        self.run(self.conn.close())
        super().close()
