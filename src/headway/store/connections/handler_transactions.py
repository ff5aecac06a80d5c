"""Connections for handlers whose effects commit together with their verdict (G4).

A handler gets a connection in an open transaction. Its effects and the statement that settles its job
commit together. If anything fails before that, the transaction is rolled back and the connection is not
used again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from headway.errors import ConfigError
from headway.store.connections import connect
from headway.store.connections.connect import AsyncConn, SyncConn, Target
from headway.store.faults import is_passing
from headway.store.statement import Statement, text

R = TypeVar("R")
C = TypeVar("C", bound=AsyncConn | SyncConn)

_SESSION: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
_PREPARE_AFTER = 5
_PATIENCE = 35.0
"""Seconds for the worker's own statements on these connections, as in engine_connection.py."""
_ABOUT = "select pg_is_in_recovery(), pg_backend_pid()"
# A handler whose worker is stopped, cut off or dead must not hold its locks for ever: its job was given
# to another worker, which may need them. The rescue ends such transactions by the name of their
# connection. The server ends them itself if there is no rescue, and if a statement runs on for a client
# that is gone (not every operating system can detect that).
_IDLE_TIMEOUT = "set idle_in_transaction_session_timeout = '5min'"
_CHECK_CLIENT = "set client_connection_check_interval = '2s'"


class _Connection(AsyncConnection[TupleRow]):
    """A connection that does not lose a cancellation.

    Before Python 3.12 the driver loses one that arrives together with an answer. A handler that timed out
    would then run on.
    """

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        answer = await super().wait(*args, **kwargs)
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
        return answer


class HandlerTransaction(ABC, Generic[C]):
    """A connection in a transaction, which is committed or rolled back once."""

    def __init__(self, conn: C, schema: str, done: Callable[[C | None], None]) -> None:
        """`done` takes the connection back, or None if it must not be used again."""
        self.conn = conn
        self._schema = schema
        self._done = done

    @abstractmethod
    async def begin(self) -> None:
        """Open the transaction."""

    @abstractmethod
    async def settle(self, statement: Statement[R]) -> R:
        """Run a statement in the transaction and return its answer."""

    @abstractmethod
    async def commit(self) -> None:
        """Commit, and give the connection back. If it fails, the outcome is unknown."""

    @abstractmethod
    async def rollback(self) -> None:
        """Roll back by closing the connection."""

    def abandon(self, thread: asyncio.Future[Any]) -> None:
        """Roll back while a thread that did not stop still uses the connection."""
        connect.cut(self.conn)
        self._done(None)

    @property
    def _is_pooled(self) -> bool:
        """Whether there is a pooler in between, as found when the connection was opened."""
        return self.conn.prepare_threshold is None

    def _check_open(self) -> None:
        if self.conn.info.transaction_status == TransactionStatus.IDLE:
            raise ConfigError(
                "the handler ended its transaction itself, so its effects and its success cannot commit "
                "together; leave COMMIT and ROLLBACK to the worker (conn.transaction() makes savepoints)"
            )


class AsyncHandlerTransaction(HandlerTransaction[AsyncConn]):
    """The transaction of a handler on the loop."""

    async def begin(self) -> None:
        self.conn.row_factory = tuple_row
        self._block = self.conn.transaction()
        with connect.answer_within(self.conn, _PATIENCE):
            await self._block.__aenter__()
            if self._is_pooled:
                await self.conn.execute(connect.HANDLER_TRANSACTION)

    async def settle(self, statement: Statement[R]) -> R:
        self._check_open()
        async with self.conn.cursor(row_factory=tuple_row) as cursor:
            with connect.answer_within(self.conn, _PATIENCE):
                await cursor.execute(text(statement.name, self._schema), statement.params)
            return statement.read(await cursor.fetchall())

    async def commit(self) -> None:
        with connect.answer_within(self.conn, _PATIENCE):
            await self._block.__aexit__(None, None, None)
        self._done(self.conn)

    async def rollback(self) -> None:
        await self.conn.close()
        self._done(None)


class SyncHandlerTransaction(HandlerTransaction[SyncConn]):
    """The transaction of a handler in a thread. The worker's own statements run in separate threads."""

    def __init__(
        self,
        conn: SyncConn,
        schema: str,
        done: Callable[[SyncConn | None], None],
        threads: ThreadPoolExecutor,
    ) -> None:
        super().__init__(conn, schema, done)
        self._threads = threads

    async def begin(self) -> None:
        self.conn.row_factory = tuple_row
        self._block = self.conn.transaction()
        await self._ask(self._block.__enter__)
        if self._is_pooled:
            await self._ask(self.conn.execute, connect.HANDLER_TRANSACTION)

    async def settle(self, statement: Statement[R]) -> R:
        self._check_open()
        answer: R = await self._ask(partial(self._settle, statement))
        return answer

    async def commit(self) -> None:
        await self._ask(self._block.__exit__, None, None, None)
        self._done(self.conn)

    async def rollback(self) -> None:
        self.conn.close()
        self._done(None)

    def abandon(self, thread: asyncio.Future[Any]) -> None:
        super().abandon(thread)
        thread.add_done_callback(lambda _: self.conn.close())

    def _settle(self, statement: Statement[R]) -> R:
        with self.conn.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(text(statement.name, self._schema), statement.params)
            return statement.read(cursor.fetchall())

    async def _ask(self, call: Callable[..., R], *args: Any) -> R:
        with connect.answer_within(self.conn, _PATIENCE):
            return await _to_its_end(self._threads, call, *args)


class HandlerTransactions:
    """At most `most` connections, opened when they are needed and kept for the next handler."""

    def __init__(self, target: Target, most: int) -> None:
        self._target = target
        self._free = asyncio.Semaphore(most)
        # As many threads as connections, so that threads cannot wait for each other in a circle.
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="headway-transaction")
        self._idle: list[AsyncConn] = []
        self._idle_sync: list[SyncConn] = []
        self._in_use = set[AsyncConn | SyncConn]()
        self._worker = 0
        self._cuts = 0
        """How often all connections were dropped. A connection from before is not kept."""

    async def begin(
        self, *, sync: bool, worker: int
    ) -> AsyncHandlerTransaction | SyncHandlerTransaction:
        """Return a transaction for a handler of this worker, once a connection is free."""
        await self._free.acquire()
        try:
            if worker != self._worker:
                await self._close_idle()  # their name is that of a registration that was lost
                self._worker = worker
            return await self._begin(sync)
        except BaseException:
            self._free.release()
            raise

    def cut(self, *, in_use: bool) -> None:
        """Drop the idle connections. If `in_use`, also cut those of running handlers, which then fail."""
        self._cuts += 1
        for idle in (self._idle, self._idle_sync):
            while idle:
                idle.pop().pgconn.finish()
        if in_use:
            for conn in self._in_use:
                connect.cut(conn)

    async def close(self) -> None:
        """Close the connections that are not in use."""
        await self._close_idle()
        self._threads.shutdown(wait=False)

    async def _begin(self, sync: bool) -> AsyncHandlerTransaction | SyncHandlerTransaction:
        while True:
            transaction, new = await (self._connected_sync() if sync else self._connected())
            try:
                await transaction.begin()
                return transaction
            except BaseException as error:
                transaction.conn.pgconn.finish()
                self._in_use.discard(transaction.conn)
                # The server may have closed an idle connection meanwhile.
                if new or not is_passing(error):
                    raise

    async def _connected(self) -> tuple[AsyncHandlerTransaction, bool]:
        idle = self._idle.pop() if self._idle else None
        conn = idle or await self._open()
        return AsyncHandlerTransaction(
            conn, self._target.schema, self._give_back(conn, self._idle)
        ), idle is None

    async def _connected_sync(self) -> tuple[SyncHandlerTransaction, bool]:
        idle = self._idle_sync.pop() if self._idle_sync else None
        conn = idle or await self._opened_sync()
        done = self._give_back(conn, self._idle_sync)
        return SyncHandlerTransaction(conn, self._target.schema, done, self._threads), idle is None

    def _give_back(self, used: C, idle: list[C]) -> Callable[[C | None], None]:
        """Return the function that puts a connection among the idle ones.

        It closes the connection if the worker's registration was lost meanwhile, or if all connections
        were dropped.
        """
        made_for = self._worker, self._cuts
        self._in_use.add(used)

        def done(conn: C | None) -> None:
            self._in_use.discard(used)
            if conn is not None and made_for == (self._worker, self._cuts):
                idle.append(conn)
            elif conn is not None:
                conn.pgconn.finish()
            self._free.release()

        return done

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()
        while self._idle_sync:
            self._idle_sync.pop().close()

    def _dsn(self) -> str:
        # rescue.sql finds them by this name. The server keeps 63 bytes of it.
        name = f"headway handlers of worker {self._worker} in {self._target.schema}"
        return self._target.named(name[:63]).dsn

    async def _open(self) -> AsyncConn:
        conn = await _Connection.connect(self._dsn(), **_SESSION)
        try:
            with connect.answer_within(conn, _PATIENCE):
                await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
                await conn.set_read_only(False)
                if _is_direct(await (await conn.execute(_ABOUT)).fetchone(), conn):
                    await conn.execute(connect.HANDLER_SESSION)
                    await conn.execute(_IDLE_TIMEOUT)
                    with suppress(psycopg.errors.InvalidParameterValue):
                        await conn.execute(_CHECK_CLIENT)
                    conn.prepare_threshold = _PREPARE_AFTER
        except BaseException:
            await conn.close()
            raise
        return conn

    async def _opened_sync(self) -> SyncConn:
        opened: list[SyncConn] = []
        try:
            await _to_its_end(self._threads, self._open_sync, self._dsn(), opened.append)
        except BaseException:
            for conn in opened:
                conn.close()
            raise
        return opened[0]

    def _open_sync(self, dsn: str, opened: Callable[[SyncConn], None]) -> None:
        conn: Connection[TupleRow] = Connection.connect(dsn, **_SESSION)
        opened(conn)
        conn.isolation_level = IsolationLevel.READ_COMMITTED
        conn.read_only = False
        if _is_direct(conn.execute(_ABOUT).fetchone(), conn):
            conn.execute(connect.HANDLER_SESSION)
            conn.execute(_IDLE_TIMEOUT)
            with suppress(psycopg.errors.InvalidParameterValue):
                conn.execute(_CHECK_CLIENT)
            conn.prepare_threshold = _PREPARE_AFTER


def _is_direct(about: TupleRow | None, conn: AsyncConn | SyncConn) -> bool:
    """Return whether there is no pooler in between. Behind one, nothing relies on the session."""
    assert about is not None
    connect.refuse_standby(bool(about[0]))
    return bool(about[1] == conn.info.backend_pid)


async def _to_its_end(threads: ThreadPoolExecutor, call: Callable[..., R], *args: Any) -> R:
    """Call in a thread and return the result.

    If cancelled, wait for the thread all the same: the next statement must not use the same connection in
    parallel.
    """
    running = asyncio.get_running_loop().run_in_executor(threads, call, *args)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()
        raise
