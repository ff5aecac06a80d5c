"""One connection of the engine's own that comes back after every fault.

The engine never borrows from the pool that user code draws from: a handler that takes every
connection must not stop a heartbeat. A link runs statements, all of a call in one round trip and one
transaction; on a passing fault, or when no answer comes, it drops its connection and raises
`DatabaseUnavailable`, and the next call connects anew. How long to wait in between is the
caller's loop's business.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncCursor

from headway.core.clock import monotonic
from headway.errors import DatabaseUnavailable, HeadwayError
from headway.store import blockers, connect, migrate, rights
from headway.store.blockers import Blocker, may_be_held_up
from headway.store.connect import AsyncLink, Target
from headway.store.faults import DRIVER_ERRORS, OWN_CUT, is_passing, translate, words
from headway.store.statement import Statement, text

R = TypeVar("R")

_PATIENCE = 35.0
"""Seconds for one call: a little more than the server gives a statement (connect.py)."""


class Link:
    """A lasting connection to one target; not to be shared between concurrent callers."""

    def __init__(self, target: Target, patience: float = _PATIENCE) -> None:
        self.target = target
        self._patience = patience
        self._conn: AsyncLink | None = None
        self._turn = asyncio.Lock()
        self._cut = False
        """The worker itself cut the connection."""
        self.round_trips = 0
        """Those that were answered, and what they took together, in seconds."""
        self.seconds = 0.0
        self.answered_at: float | None = None
        """When the last answer came."""
        self.connected_in: float | None = None
        """What it took to make the newest connection, in seconds."""

    async def run(self, statement: Statement[R]) -> R:
        """The answer of one statement."""
        answer: R = (await self.run_all(statement))[0]
        return answer

    async def run_all(self, *statements: Statement[Any]) -> list[Any]:
        """The answers of several, sent together: one round trip, one commit, all or nothing."""
        async with self._turn:
            began = monotonic()
            try:
                conn = await self._connection()
                began = monotonic()
                with connect.answer_within(conn, self._patience):
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
                silent = self._conn is not None and self._conn.broken and waited >= self._patience
                if is_passing(error) or self._conn is None or self._conn.broken:
                    await self._drop()
                if cut:
                    raise DatabaseUnavailable(OWN_CUT) from error
                if silent or may_be_held_up(error):
                    raise await self._held_up(error, waited, silent) from error
                raise translate(error, advice) from error
            except asyncio.CancelledError:
                # What the server made of it is not known; neither is the connection's state.
                await self._drop()
                raise

    async def verify(self) -> None:
        """Connects, and refuses a schema that does not fit this library."""
        async with self._turn:
            try:
                conn = await self._connection()
                with connect.answer_within(conn, self._patience):
                    await migrate.verify(conn, self.target.schema)
            except BaseException as error:
                advice = self._advice()
                await self._drop()
                if isinstance(error, DRIVER_ERRORS):
                    raise translate(error, advice) from error
                raise

    def cut(self) -> None:
        """Waits no longer for the answer to the call under way, if there is one: it fails."""
        if self._conn is not None:
            self._cut = True
            connect.cut(self._conn)

    async def _held_up(self, error: Exception, waited: float, silent: bool) -> HeadwayError:
        """Return the error for a call that may have waited for a lock, with the names of its holders.

        They are asked for on a connection of its own.
        """
        said = f"no answer within {self._patience:.3g} s" if silent else words(error)
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
            return blockers.explain(said, held)
        return (
            DatabaseUnavailable(f"{said}; look at the server's load")
            if silent
            else translate(error)
        )

    async def close(self) -> None:
        async with self._turn:
            await self._drop()

    def _advice(self) -> str:
        login = rights.login_of(self._conn)
        return rights.advice(self.target.schema, login, ["moves/claim"])  # what a worker needs

    async def _connection(self) -> AsyncLink:
        if self._conn is None or self._conn.closed:
            began = monotonic()
            self._conn = await connect.connect(self.target)
            self.connected_in = monotonic() - began
        return self._conn

    async def _drop(self) -> None:
        conn, self._conn, self._cut = self._conn, None, False
        if conn is not None:
            await conn.close()


async def _send(conn: AsyncLink, statements: tuple[Statement[Any], ...], schema: str) -> list[Any]:
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
    conn: AsyncLink, statements: tuple[Statement[Any], ...], schema: str
) -> list[Any]:
    """Send a whole transaction, from BEGIN to COMMIT, in one round trip.

    `conn.transaction()` would wait for the answer to each of BEGIN, the statements and COMMIT: while
    this process does something else in between, rows stay locked and the server connection is taken.
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
        # After an error, also one of ours, COMMIT was skipped or never sent: the transaction is
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
