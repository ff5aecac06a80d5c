"""One connection of the engine's own that comes back after every fault.

The engine never borrows from the pool that user code draws from: a handler that takes every
connection must not stop a heartbeat. A link runs statements, all of a call in one round trip and one
transaction; on a passing fault, or when no answer comes, it drops its connection and raises
`DatabaseUnavailable`, and the next call connects anew. How long to wait in between is the
caller's loop's business.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from psycopg import AsyncCursor

from headway.core.clock import monotonic
from headway.errors import HeadwayError
from headway.store import connect, migrate
from headway.store.connect import AsyncLink, Target
from headway.store.faults import DRIVER_ERRORS, is_passing, translate
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
        self.round_trips = 0
        """Those that were answered, and what they took together, in seconds."""
        self.seconds = 0.0
        self.connected_in: float | None = None
        """What it took to make the newest connection, in seconds."""

    async def run(self, statement: Statement[R]) -> R:
        """The answer of one statement."""
        answer: R = (await self.run_all(statement))[0]
        return answer

    async def run_all(self, *statements: Statement[Any]) -> list[Any]:
        """The answers of several, sent together: one round trip, one commit, all or nothing."""
        async with self._turn:
            try:
                conn = await self._connection()
                began = monotonic()
                with connect.answer_within(conn, self._patience):
                    answers = await _send(conn, statements, self.target.schema)
                self.round_trips += 1
                self.seconds += monotonic() - began
                return answers
            except HeadwayError:
                await self._drop()
                raise
            except DRIVER_ERRORS as error:
                if is_passing(error) or self._conn is None or self._conn.broken:
                    await self._drop()
                raise translate(error) from error
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
                await self._drop()
                if isinstance(error, DRIVER_ERRORS):
                    raise translate(error) from error
                raise

    def cut(self) -> None:
        """Waits no longer for the answer to the call under way, if there is one: it fails."""
        if self._conn is not None:
            connect.cut(self._conn)

    async def close(self) -> None:
        async with self._turn:
            await self._drop()

    async def _connection(self) -> AsyncLink:
        if self._conn is None or self._conn.closed:
            began = monotonic()
            self._conn = await connect.connect(self.target)
            self.connected_in = monotonic() - began
        return self._conn

    async def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()


async def _send(conn: AsyncLink, statements: tuple[Statement[Any], ...], schema: str) -> list[Any]:
    direct = connect.is_direct(conn)
    cursors: list[AsyncCursor[Any]] = []
    async with AsyncExitStack() as stack:
        if len(statements) > 1 or not direct:
            await stack.enter_async_context(conn.pipeline())
        if not direct:
            await stack.enter_async_context(conn.transaction())
        for statement in statements:
            cursor = conn.cursor()
            cursors.append(cursor)
            await cursor.execute(text(statement.name, schema), statement.params, prepare=direct)
    return [
        statement.read(await cursor.fetchall())
        for statement, cursor in zip(statements, cursors, strict=True)
    ]
