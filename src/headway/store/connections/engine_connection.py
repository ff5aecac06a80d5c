"""A connection of the engine that reconnects after every fault.

The engine does not use the pool of user code: a handler that takes every connection must not stop a
heartbeat. All statements of a call run in one round trip and one transaction. After a passing fault, or
without an answer in time, the connection is dropped and the call raises `DatabaseUnavailable`. The next
call connects again. The caller decides how long to wait before that.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncCursor

from headway.core.clock import monotonic
from headway.errors import DatabaseUnavailable, HeadwayError
from headway.store import blockers, migrate, rights
from headway.store.blockers import Blocker, may_be_held_up
from headway.store.connections import connect
from headway.store.connections.connect import AsyncConn, Target
from headway.store.faults import DRIVER_ERRORS, OWN_CUT, is_passing, translate, words
from headway.store.statement import Statement, text

R = TypeVar("R")

_TIMEOUT = 35.0
"""Seconds for one call: a little more than the server gives a statement (connect.py)."""


class EngineConnection:
    """A lasting connection to one target. Concurrent calls wait for each other."""

    def __init__(self, target: Target, timeout: float = _TIMEOUT) -> None:
        self.target = target
        self._timeout = timeout
        self._conn: AsyncConn | None = None
        self._turn = asyncio.Lock()
        self._refuses = False
        self._cut = False
        """The worker itself cut the connection."""
        self.round_trips = 0
        """How many round trips were answered."""
        self.seconds = 0.0
        """How long they took together."""
        self.answered_at: float | None = None
        """The time of the last answer."""
        self.connected_in: float | None = None
        """The seconds that it took to make the newest connection."""

    async def run(self, statement: Statement[R]) -> R:
        """Return the answer of one statement."""
        answer: R = (await self.run_all(statement))[0]
        return answer

    async def run_all(self, *statements: Statement[Any]) -> list[Any]:
        """Return the answers of several statements: one round trip, one commit, all or nothing."""
        async with self._turn:
            began = monotonic()
            try:
                conn = await self._connection()
                began = monotonic()
                with connect.answer_within(conn, self._timeout):
                    answers = await _send(conn, statements, self.target.schema)
                self.round_trips += 1
                self.answered_at = monotonic()
                self.seconds += self.answered_at - began
                return answers
            except HeadwayError:
                await self._drop()
                raise
            except DRIVER_ERRORS as error:
                cut, advice = self._cut, self._advice()
                waited = monotonic() - began
                silent = self._conn is not None and self._conn.broken and waited >= self._timeout
                if is_passing(error) or self._conn is None or self._conn.broken:
                    await self._drop()
                if cut:
                    raise DatabaseUnavailable(OWN_CUT) from error
                if silent or may_be_held_up(error):
                    raise await self._held_up(error, waited, silent) from error
                raise translate(error, advice) from error
            except asyncio.CancelledError:
                # Neither the outcome at the server nor the connection's state is known.
                await self._drop()
                raise

    async def verify(self) -> None:
        """Connect. Raise SchemaMismatch if the schema does not fit this library."""
        async with self._turn:
            try:
                conn = await self._connection()
                with connect.answer_within(conn, self._timeout):
                    await migrate.verify(conn, self.target.schema)
            except BaseException as error:
                advice = self._advice()
                await self._drop()
                if isinstance(error, DRIVER_ERRORS):
                    raise translate(error, advice) from error
                raise

    def cut(self) -> None:
        """Stop waiting for the answer to the current call, if there is one. The call fails."""
        if self._conn is not None:
            self._cut = True
            connect.cut(self._conn)

    def refuse(self) -> None:
        """Send nothing more, for good: the process of this connection is to seem dead."""
        self._refuses = True
        self.cut()

    async def _held_up(self, error: Exception, waited: float, silent: bool) -> HeadwayError:
        """Return the error for a call that may have waited for a lock, with the holders of the lock.

        A second connection finds the holders.
        """
        problem = f"no answer within {self._timeout:.3g} s" if silent else words(error)
        held: list[Blocker] = []
        with suppress(HeadwayError, TimeoutError, *DRIVER_ERRORS):
            async with asyncio.timeout(blockers.ANSWER_WITHIN):
                conn = await connect.connect(self.target)
                try:
                    held = (await _send(conn, (blockers.read(waited * 0.9),), self.target.schema))[
                        0
                    ]
                finally:
                    await conn.close()
        if held:
            return blockers.explain(problem, held)
        return (
            DatabaseUnavailable(f"{problem}; check the server's load")
            if silent
            else translate(error)
        )

    async def close(self) -> None:
        async with self._turn:
            await self._drop()

    def _advice(self) -> str:
        login = rights.login_of(self._conn)
        return rights.advice(self.target.schema, login, ["moves/claim"])  # what a worker needs

    async def _connection(self) -> AsyncConn:
        if self._refuses:
            raise DatabaseUnavailable(OWN_CUT)
        if self._conn is None or self._conn.closed:
            began = monotonic()
            self._conn = await connect.connect(self.target)
            self.connected_in = monotonic() - began
        return self._conn

    async def _drop(self) -> None:
        conn, self._conn, self._cut = self._conn, None, False
        if conn is not None:
            await conn.close()


async def _send(conn: AsyncConn, statements: tuple[Statement[Any], ...], schema: str) -> list[Any]:
    if not connect.is_direct(conn):
        return await _send_pooled(conn, statements, schema)
    cursors: list[AsyncCursor[Any]] = []
    async with AsyncExitStack() as stack:
        if len(statements) > 1:
            await stack.enter_async_context(conn.pipeline())
        for statement in statements:
            cursor = conn.cursor()
            cursors.append(cursor)
            await cursor.execute(text(statement.name, schema), statement.params, prepare=True)
    return await _read(statements, cursors)


async def _send_pooled(
    conn: AsyncConn, statements: tuple[Statement[Any], ...], schema: str
) -> list[Any]:
    """Send a whole transaction, from BEGIN to COMMIT, in one round trip.

    `conn.transaction()` would wait for each answer: to BEGIN, the statements and COMMIT. Whenever this
    process is busy in between, rows would stay locked and the server connection would stay taken.
    """
    cursors: list[AsyncCursor[Any]] = []
    try:
        async with conn.pipeline():
            for command in connect.ENGINE_TRANSACTION:
                await conn.execute(command)
            for statement in statements:
                cursor = conn.cursor()
                cursors.append(cursor)
                await cursor.execute(text(statement.name, schema), statement.params, prepare=False)
            await conn.execute("commit")
    except Exception:
        # After an error, even one of our own, COMMIT was skipped or never sent: the transaction is
        # still open.
        with suppress(psycopg.Error):
            await conn.rollback()
        raise
    return await _read(statements, cursors)


async def _read(
    statements: tuple[Statement[Any], ...], cursors: list[AsyncCursor[Any]]
) -> list[Any]:
    return [
        statement.read(await cursor.fetchall())
        for statement, cursor in zip(statements, cursors, strict=True)
    ]
