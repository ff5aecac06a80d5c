"""Running statements for user code: a pool for async callers, one for sync ones, opened on first use.

The first use checks the schema. A passing fault is met by trying again for a few seconds; statements
say themselves what a repetition must add to be safe. On a caller's own connection nothing is
repeated and nothing is committed: the transaction is theirs.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from headway.store import borrowed, migrate
from headway.store.borrowed.psycopg import AsyncPsycopg, Psycopg
from headway.store.connect import Target, connect, connect_sync
from headway.store.faults import DRIVER_ERRORS, is_passing, translate
from headway.store.scripts import Script
from headway.store.statement import Statement, text

R = TypeVar("R")
AsyncPool = AsyncConnectionPool[AsyncConnection[TupleRow]]
SyncPool = ConnectionPool[Connection[TupleRow]]

_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)  # between tries, in seconds: about four in all
_PREPARE_AFTER = 3
_SESSION: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}


class Client:
    """Statements in, answers out; sync and async, on our connections or on the caller's."""

    def __init__(self, target: Target, *, pool_size: int = 10) -> None:
        self.target = target
        self._pool_size = pool_size
        # A pool lives on one event loop; an app may see several (tests, asyncio.run called twice).
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPool] = WeakKeyDictionary()
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._sync_pool: SyncPool | None = None
        self._sync_opening = threading.Lock()
        self._of_the_parent: list[SyncPool] = []
        _clients.add(self)

    # -- async ------------------------------------------------------------------------------------

    async def open(self) -> AsyncPool:
        """The pool of this event loop, opened and its schema checked if it was not yet."""
        loop = asyncio.get_running_loop()
        if (pool := self._pools.get(loop)) is not None:
            return pool
        async with self._opening.setdefault(loop, asyncio.Lock()):
            if (pool := self._pools.get(loop)) is None:
                await self._verify()
                pool = AsyncPool(
                    self.target.dsn,
                    kwargs=_SESSION,
                    min_size=0,
                    max_size=self._pool_size,
                    timeout=5,
                    open=False,
                    configure=_configure,
                )
                await pool.open()
                self._pools[loop] = pool
        return pool

    async def close(self) -> None:
        """Closes this event loop's pool."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()

    async def run(self, statement: Statement[R], conn: Any = None) -> R:
        """The answer of one statement."""
        answer: R = (await self.run_all([statement], conn=conn))[0]
        return answer

    async def play(self, script: Script[R]) -> R:
        """The answer of a script."""
        try:
            statement = next(script)
            while True:
                statement = script.send(await self.run(statement))
        except StopIteration as finished:
            answer: R = finished.value
            return answer

    async def run_all(
        self,
        statements: Sequence[Statement[Any]],
        *,
        on_repeat: Sequence[Statement[Any]] = (),
        conn: Any = None,
    ) -> list[Any]:
        """The answers of several, in one transaction.

        `on_repeat` is added when they are sent again after a fault that may have struck behind the
        commit.
        """
        if conn is not None:
            with borrowed.explained():
                return await self._on(borrowed.lend_async(conn), statements)
        sending, cancelled = list(statements), _times_cancelled()
        for pause in (*_PAUSES, None):
            pool = await self.open()
            try:
                async with pool.connection() as own:
                    answers = await self._on(AsyncPsycopg(own), sending)
                if _times_cancelled() > cancelled:
                    raise asyncio.CancelledError
                return answers[: len(statements)]
            except DRIVER_ERRORS as error:
                if pause is None or not is_passing(error):
                    raise translate(error) from error
            sending = [*statements, *on_repeat]
            await asyncio.sleep(pause)
            await pool.check()
        raise AssertionError("the last try returns or raises")

    async def _on(
        self, conn: borrowed.AsyncLent, statements: Sequence[Statement[Any]]
    ) -> list[Any]:
        if len(statements) == 1:
            return [await self._one(conn, statements[0])]
        async with conn.together():
            return [await self._one(conn, statement) for statement in statements]

    async def _one(self, conn: borrowed.AsyncLent, statement: Statement[R]) -> R:
        sql = text(statement.name, self.target.schema)
        return statement.read(await conn.rows(sql, statement.params))

    async def _verify(self) -> None:
        try:
            conn = await connect(self.target)
            async with conn:
                await migrate.verify(conn, self.target.schema)
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    # -- sync -------------------------------------------------------------------------------------

    def open_sync(self) -> SyncPool:
        """The pool for threads, opened and its schema checked if it was not yet."""
        with self._sync_opening:
            if (pool := self._sync_pool) is None:
                self._verify_sync()
                pool = SyncPool(
                    self.target.dsn,
                    kwargs=_SESSION,
                    min_size=0,
                    max_size=self._pool_size,
                    timeout=5,
                    open=False,
                    configure=_configure_sync,
                )
                pool.open()
                self._sync_pool = pool
        return pool

    def close_sync(self) -> None:
        with self._sync_opening:
            pool, self._sync_pool = self._sync_pool, None
        if pool is not None:
            pool.close()

    def leave_to_parent(self) -> None:
        """In a forked child: lets go of the parent's pool without touching its connections."""
        if self._sync_pool is not None:
            self._of_the_parent.append(self._sync_pool)  # never collected: that would close it
        self._sync_pool = None
        self._sync_opening = threading.Lock()

    def run_sync(self, statement: Statement[R], conn: Any = None) -> R:
        """The answer of one statement."""
        answer: R = self.run_all_sync([statement], conn=conn)[0]
        return answer

    def play_sync(self, script: Script[R]) -> R:
        """As `play`."""
        try:
            statement = next(script)
            while True:
                statement = script.send(self.run_sync(statement))
        except StopIteration as finished:
            answer: R = finished.value
            return answer

    def run_all_sync(
        self,
        statements: Sequence[Statement[Any]],
        *,
        on_repeat: Sequence[Statement[Any]] = (),
        conn: Any = None,
    ) -> list[Any]:
        """As `run_all`."""
        if conn is not None:
            with borrowed.explained():
                return self._on_sync(borrowed.lend(conn), statements)
        sending = list(statements)
        for pause in (*_PAUSES, None):
            pool = self.open_sync()
            try:
                with pool.connection() as own:
                    return self._on_sync(Psycopg(own), sending)[: len(statements)]
            except DRIVER_ERRORS as error:
                if pause is None or not is_passing(error):
                    raise translate(error) from error
            sending = [*statements, *on_repeat]
            time.sleep(pause)
            pool.check()
        raise AssertionError("the last try returns or raises")

    def _on_sync(self, conn: borrowed.Lent, statements: Sequence[Statement[Any]]) -> list[Any]:
        if len(statements) == 1:
            return [self._one_sync(conn, statements[0])]
        with conn.together():
            return [self._one_sync(conn, statement) for statement in statements]

    def _one_sync(self, conn: borrowed.Lent, statement: Statement[R]) -> R:
        sql = text(statement.name, self.target.schema)
        return statement.read(conn.rows(sql, statement.params))

    def _verify_sync(self) -> None:
        try:
            with connect_sync(self.target) as conn:
                migrate.verify_sync(conn, self.target.schema)
        except DRIVER_ERRORS as error:
            raise translate(error) from error


def _times_cancelled() -> int:
    # Before Python 3.12 a cancellation that comes at the moment of an answer is lost inside the driver
    # (its wait_for returns the answer instead); whoever loops over statements would never end.
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


_clients: WeakSet[Client] = WeakSet()


def _after_fork() -> None:
    for client in _clients:
        client.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)


async def _configure(conn: AsyncConnection[TupleRow]) -> None:
    # Each statement of a transaction must see what committed before it (withdraw.sql relies on it),
    # whatever the database's default is.
    await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    # Prepared statements only where the server is reached directly (see connect.py).
    row = await (await conn.execute("select pg_backend_pid()")).fetchone()
    if row is not None and row[0] == conn.info.backend_pid:
        conn.prepare_threshold = _PREPARE_AFTER


def _configure_sync(conn: Connection[TupleRow]) -> None:
    conn.isolation_level = IsolationLevel.READ_COMMITTED
    row = conn.execute("select pg_backend_pid()").fetchone()
    if row is not None and row[0] == conn.info.backend_pid:
        conn.prepare_threshold = _PREPARE_AFTER
