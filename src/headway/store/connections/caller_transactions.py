"""Runs statements on connections of callers, in their transactions.

Nothing is cut, repeated or committed there. Before a job is made, the statement itself checks that the
connection leads to the app's own database, whose identity is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from headway.store import caller, rights
from headway.store.connections import identity
from headway.store.connections.identity import Identity
from headway.store.connections.loop_warning import warn_if_on_loop
from headway.store.statement import Statement, client_text

Making = Callable[[Identity], Sequence[Statement[Any]]]
"""Makes statements for a connection that must lead to this place. If not, the answer is `Elsewhere`."""


class OwnDatabase(Protocol):
    """Runs statements in the app's own database."""

    async def run_all(self, statements: Sequence[Statement[Any]], /) -> list[Any]: ...
    def run_all_sync(self, statements: Sequence[Statement[Any]], /) -> list[Any]: ...


class CallerTransactions:
    """Statements on the connections of callers."""

    def __init__(self, own: OwnDatabase, schema: str) -> None:
        self._own = own
        self._schema = schema
        self._place: Identity | None = None

    async def run(self, conn: Any, make: Making) -> list[Any]:
        """Return the answers of statements. `make` receives the identity of the app's own database.

        Raise ConfigError if the connection leads to another one.
        """
        wrapped, own = caller.wrap_async(conn), self._place
        with caller.explained(partial(self._advice, make)):
            if own is not None:
                answers = await self._on(wrapped, make(own))
                if (found := identity.elsewhere(answers)) is None:
                    return answers
            # Again: the server may have been restarted.
            own = self._place = (await self._own.run_all([identity.read()]))[0]
            answers = await self._on(wrapped, make(own))
            if (found := identity.elsewhere(answers)) is not None:
                raise identity.refusal(own, found)
            return answers

    def run_sync(self, conn: Any, make: Making) -> list[Any]:
        """Return the answers of statements, like `run`."""
        warn_if_on_loop()
        wrapped, own = caller.wrap(conn), self._place
        with caller.explained(partial(self._advice, make)):
            if own is not None:
                answers = self._on_sync(wrapped, make(own))
                if (found := identity.elsewhere(answers)) is None:
                    return answers
            own = self._place = self._own.run_all_sync([identity.read()])[0]
            answers = self._on_sync(wrapped, make(own))
            if (found := identity.elsewhere(answers)) is not None:
                raise identity.refusal(own, found)
            return answers

    async def _on(
        self, conn: caller.AsyncCallerConnection, statements: Sequence[Statement[Any]]
    ) -> list[Any]:
        if len(statements) == 1:
            return [await self._one(conn, statements[0])]
        async with conn.together():
            return [await self._one(conn, each) for each in statements]

    async def _one(self, conn: caller.AsyncCallerConnection, one: Statement[Any]) -> Any:
        sql = client_text(one.name, self._schema)
        if one.counted:
            return one.read([(await conn.count(sql, one.params),)])
        return one.read(await conn.rows(sql, one.params))

    def _on_sync(
        self, conn: caller.CallerConnection, statements: Sequence[Statement[Any]]
    ) -> list[Any]:
        if len(statements) == 1:
            return [self._one_sync(conn, statements[0])]
        with conn.together():
            return [self._one_sync(conn, each) for each in statements]

    def _one_sync(self, conn: caller.CallerConnection, one: Statement[Any]) -> Any:
        sql = client_text(one.name, self._schema)
        if one.counted:
            return one.read([(conn.count(sql, one.params),)])
        return one.read(conn.rows(sql, one.params))

    def _advice(self, make: Making) -> str:
        names = [one.name for one in make(identity.NOWHERE)]
        return rights.advice(self._schema, None, names)
