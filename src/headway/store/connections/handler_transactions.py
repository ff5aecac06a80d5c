"""Connections for handlers whose effects commit together with their verdict (G4).

A handler is lent a connection in an open transaction. What it did, and the statement that settles its
job, are committed in one; whatever goes wrong before that, the transaction is rolled back and the
connection is not used again.
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
from headway.store import connect
from headway.store.connect import AsyncLink, SyncLink, Target
from headway.store.faults import is_passing
from headway.store.statement import Statement, text

R = TypeVar("R")
C = TypeVar("C", bound=AsyncLink | SyncLink)

_SESSION: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
_PREPARE_AFTER = 5
_PATIENCE = 35.0
"""Seconds for what the worker itself asks on these connections, as in link.py."""
_ABOUT = "select pg_is_in_recovery(), pg_backend_pid()"
# Locks of a handler whose worker is stopped, cut off or dead must not be held for ever: its job has
# been given to another, who may need them. The rescue ends such transactions by the name of their
# connection; the server itself does it where nobody comes to the rescue, and where a statement runs on
# for a client that is gone (not every system can tell).
_LONGEST_SILENCE = "set idle_in_transaction_session_timeout = '5min'"
_LOOK_FOR_CLIENT = "set client_connection_check_interval = '2s'"


class _Connection(AsyncConnection[TupleRow]):
    """One that does not lose a cancellation. Before Python 3.12 the driver does, if it comes at the
    moment of an answer: a handler that timed out would then run on."""

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        answer = await super().wait(*args, **kwargs)
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
        return answer


class Lent(ABC, Generic[C]):
    """A connection in a transaction: to be committed or rolled back, once."""

    def __init__(self, conn: C, schema: str, done: Callable[[C | None], None]) -> None:
        """`done` takes the connection back, or nothing if it is not to be used again."""
        self.conn = conn
        self._schema = schema
        self._done = done

    @abstractmethod
    async def begin(self) -> None:
        """Opens the transaction."""

    @abstractmethod
    async def settle(self, statement: Statement[R]) -> R:
        """Runs a statement in the transaction."""

    @abstractmethod
    async def commit(self) -> None:
        """Commits, and gives the connection back; when that fails nobody knows what came of it."""

    @abstractmethod
    async def rollback(self) -> None:
        """Ends the transaction without a trace, by ending the connection."""

    def abandon(self, thread: asyncio.Future[Any]) -> None:
        """The same, while a thread that would not stop still uses it."""
        connect.cut(self.conn)
        self._done(None)

    def _check_open(self) -> None:
        if self.conn.info.transaction_status == TransactionStatus.IDLE:
            raise ConfigError(
                "the handler ended its transaction itself, so its effects and its success cannot be "
                "one; leave COMMIT and ROLLBACK to the worker (conn.transaction() makes savepoints)"
            )


class AsyncLent(Lent[AsyncLink]):
    """For a handler on the loop."""

    async def begin(self) -> None:
        self.conn.row_factory = tuple_row
        self._block = self.conn.transaction()
        with connect.answer_within(self.conn, _PATIENCE):
            await self._block.__aenter__()

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


class SyncLent(Lent[SyncLink]):
    """For a handler in a thread; what the worker asks is asked in threads of the transactions' own."""

    def __init__(
        self,
        conn: SyncLink,
        schema: str,
        done: Callable[[SyncLink | None], None],
        threads: ThreadPoolExecutor,
    ) -> None:
        super().__init__(conn, schema, done)
        self._threads = threads

    async def begin(self) -> None:
        self.conn.row_factory = tuple_row
        self._block = self.conn.transaction()
        await self._ask(self._block.__enter__)

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


class Transactions:
    """At most `most` connections, made when they are needed and kept for the next handler."""

    def __init__(self, target: Target, most: int) -> None:
        self._target = target
        self._free = asyncio.Semaphore(most)
        # As many threads as connections: none of them ever waits for one that waits for it.
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="headway-transaction")
        self._idle: list[AsyncLink] = []
        self._idle_sync: list[SyncLink] = []
        self._lent = set[AsyncLink | SyncLink]()
        self._worker = 0
        self._cuts = 0
        """How often all connections were given up: those from before are not kept."""

    async def begin(self, *, sync: bool, worker: int) -> AsyncLent | SyncLent:
        """A transaction for a handler of this worker, once a connection is free."""
        await self._free.acquire()
        try:
            if worker != self._worker:
                await self._close_idle()  # they bear the name of a worker that was given up
                self._worker = worker
            return await self._begin(sync)
        except BaseException:
            self._free.release()
            raise

    def cut(self, *, lent: bool) -> None:
        """Give up the connections that are kept, and if `lent` also those that handlers use: they
        fail."""
        self._cuts += 1
        for idle in (self._idle, self._idle_sync):
            while idle:
                idle.pop().pgconn.finish()
        if lent:
            for conn in self._lent:
                connect.cut(conn)

    async def close(self) -> None:
        """Closes what is not lent."""
        await self._close_idle()
        self._threads.shutdown(wait=False)

    async def _begin(self, sync: bool) -> AsyncLent | SyncLent:
        while True:
            lent, fresh = await (self._connected_sync() if sync else self._connected())
            try:
                await lent.begin()
                return lent
            except BaseException as error:
                lent.conn.pgconn.finish()
                self._lent.discard(lent.conn)
                # One that was kept may have been closed by the server meanwhile.
                if fresh or not is_passing(error):
                    raise

    async def _connected(self) -> tuple[AsyncLent, bool]:
        kept = self._idle.pop() if self._idle else None
        conn = kept or await self._open()
        return AsyncLent(conn, self._target.schema, self._keeper(conn, self._idle)), kept is None

    async def _connected_sync(self) -> tuple[SyncLent, bool]:
        kept = self._idle_sync.pop() if self._idle_sync else None
        conn = kept or await self._opened_sync()
        done = self._keeper(conn, self._idle_sync)
        return SyncLent(conn, self._target.schema, done, self._threads), kept is None

    def _keeper(self, lent: C, idle: list[C]) -> Callable[[C | None], None]:
        """Takes a connection back among the idle ones, unless its worker was given up meanwhile, or all
        connections were."""
        made_for = self._worker, self._cuts
        self._lent.add(lent)

        def done(conn: C | None) -> None:
            self._lent.discard(lent)
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
        # rescue.sql knows them by this name; the server keeps 63 bytes of it.
        name = f"headway handlers of worker {self._worker} in {self._target.schema}"
        return self._target.named(name[:63]).dsn

    async def _open(self) -> AsyncLink:
        conn = await _Connection.connect(self._dsn(), **_SESSION)
        try:
            with connect.answer_within(conn, _PATIENCE):
                await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
                if _is_direct(await (await conn.execute(_ABOUT)).fetchone(), conn):
                    await conn.execute(_LONGEST_SILENCE)
                    with suppress(psycopg.errors.InvalidParameterValue):
                        await conn.execute(_LOOK_FOR_CLIENT)
                    conn.prepare_threshold = _PREPARE_AFTER
        except BaseException:
            await conn.close()
            raise
        return conn

    async def _opened_sync(self) -> SyncLink:
        opened: list[SyncLink] = []
        try:
            await _to_its_end(self._threads, self._open_sync, self._dsn(), opened.append)
        except BaseException:
            for conn in opened:
                conn.close()
            raise
        return opened[0]

    def _open_sync(self, dsn: str, opened: Callable[[SyncLink], None]) -> None:
        conn: Connection[TupleRow] = Connection.connect(dsn, **_SESSION)
        opened(conn)
        conn.isolation_level = IsolationLevel.READ_COMMITTED
        if _is_direct(conn.execute(_ABOUT).fetchone(), conn):
            conn.execute(_LONGEST_SILENCE)
            with suppress(psycopg.errors.InvalidParameterValue):
                conn.execute(_LOOK_FOR_CLIENT)
            conn.prepare_threshold = _PREPARE_AFTER


def _is_direct(about: TupleRow | None, conn: AsyncLink | SyncLink) -> bool:
    """Whether no pooler stands in between: through one, nothing of the session is relied on."""
    assert about is not None
    connect.refuse_standby(bool(about[0]))
    return bool(about[1] == conn.info.backend_pid)


async def _to_its_end(threads: ThreadPoolExecutor, call: Callable[..., R], *args: Any) -> R:
    """Calls in a thread. Cancelled, it waits for the thread all the same: whatever comes next must not
    use the same connection beside it."""
    running = asyncio.get_running_loop().run_in_executor(threads, call, *args)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()
        raise
