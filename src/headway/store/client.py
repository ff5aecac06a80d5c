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
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from headway.errors import ConfigError
from headway.store import migrate
from headway.store.connect import Target, connect, connect_sync
from headway.store.faults import DRIVER_ERRORS, SCHEMA_ERRORS, is_passing, translate
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
            try:
                return await self._on(_async_connection(conn), statements)
            except SCHEMA_ERRORS as error:
                raise translate(error) from error
        sending = list(statements)
        for pause in (*_PAUSES, None):
            pool = await self.open()
            try:
                async with pool.connection() as own:
                    return (await self._on(own, sending))[: len(statements)]
            except DRIVER_ERRORS as error:
                if pause is None or not is_passing(error):
                    raise translate(error) from error
            sending = [*statements, *on_repeat]
            await asyncio.sleep(pause)
            await pool.check()
        raise AssertionError("the last try returns or raises")

    async def _on(
        self, conn: AsyncConnection[Any], statements: Sequence[Statement[Any]]
    ) -> list[Any]:
        if len(statements) == 1 or not conn.autocommit:
            # Without autocommit the caller's transaction is open already, or opens now: a block of
            # ours would commit what is theirs to commit.
            return [await self._one(conn, statement) for statement in statements]
        async with conn.transaction():
            return [await self._one(conn, statement) for statement in statements]

    async def _one(self, conn: AsyncConnection[Any], statement: Statement[R]) -> R:
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(text(statement.name, self.target.schema), statement.params)
            return statement.read(await cursor.fetchall())

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
            try:
                return self._on_sync(_sync_connection(conn), statements)
            except SCHEMA_ERRORS as error:
                raise translate(error) from error
        sending = list(statements)
        for pause in (*_PAUSES, None):
            pool = self.open_sync()
            try:
                with pool.connection() as own:
                    return self._on_sync(own, sending)[: len(statements)]
            except DRIVER_ERRORS as error:
                if pause is None or not is_passing(error):
                    raise translate(error) from error
            sending = [*statements, *on_repeat]
            time.sleep(pause)
            pool.check()
        raise AssertionError("the last try returns or raises")

    def _on_sync(self, conn: Connection[Any], statements: Sequence[Statement[Any]]) -> list[Any]:
        if len(statements) == 1 or not conn.autocommit:
            return [self._one_sync(conn, statement) for statement in statements]
        with conn.transaction():
            return [self._one_sync(conn, statement) for statement in statements]

    def _one_sync(self, conn: Connection[Any], statement: Statement[R]) -> R:
        with conn.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(text(statement.name, self.target.schema), statement.params)
            return statement.read(cursor.fetchall())

    def _verify_sync(self) -> None:
        try:
            with connect_sync(self.target) as conn:
                migrate.verify_sync(conn, self.target.schema)
        except DRIVER_ERRORS as error:
            raise translate(error) from error


_clients: WeakSet[Client] = WeakSet()


def _after_fork() -> None:
    for client in _clients:
        client.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)


def _async_connection(conn: Any) -> AsyncConnection[Any]:
    if not isinstance(conn, AsyncConnection):
        hint = "; for a sync connection use enqueue_sync" if isinstance(conn, Connection) else ""
        raise ConfigError(f"conn={conn!r} is not a psycopg AsyncConnection{hint}")
    return cast("AsyncConnection[Any]", conn)  # type: ignore[redundant-cast]


def _sync_connection(conn: Any) -> Connection[Any]:
    if not isinstance(conn, Connection):
        hint = (
            "; for an async connection await enqueue" if isinstance(conn, AsyncConnection) else ""
        )
        raise ConfigError(f"conn={conn!r} is not a psycopg Connection{hint}")
    return cast("Connection[Any]", conn)  # type: ignore[redundant-cast]


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
