"""Runs a statement without rows as a prepared one, below the driver's cursors.

A cursor adapts each value, looks up each statement and wraps each result. For an INSERT of one job that
takes longer than sending it. Only a connection of a pool comes here: nobody else uses it, and there is no
pooler in between. Statements and their parameters are the same as everywhere (`Statement`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from headway.store.connections.connect import AsyncConn, SyncConn
from headway.store.statement import Statement, client_text

_NAMED = re.compile(r"%\((\w+)\)s")


PREPARE_AFTER = 3
"""How often a statement runs on a connection before it is prepared."""


class PreparedStatements:
    """The statements that one connection has prepared, or has run a few times."""

    __slots__ = ("_prepared", "_runs")

    def __init__(self) -> None:
        self._runs: dict[str, int] = {}
        self._prepared = set[str]()

    async def run(self, conn: AsyncConn, statement: Statement[None], schema: str) -> None:
        """Run a statement that returns no rows. Raise the driver's error if the server refuses it."""
        if self._prepares(conn, statement, schema):
            _check(await conn.wait(execute(conn.pgconn)))
            self._prepared.add(statement.name)
        self._send(conn, statement, schema)
        _check(await conn.wait(execute(conn.pgconn)))

    def run_sync(self, conn: SyncConn, statement: Statement[None], schema: str) -> None:
        """Run a statement, like `run`."""
        if self._prepares(conn, statement, schema):
            _check(conn.wait(execute(conn.pgconn)))
            self._prepared.add(statement.name)
        self._send(conn, statement, schema)
        _check(conn.wait(execute(conn.pgconn)))

    def _prepares(
        self, conn: AsyncConn | SyncConn, statement: Statement[None], schema: str
    ) -> bool:
        """Return whether the statement is being prepared now.

        It is tried once. If the caller leaves before the answer, the server may have prepared it, and
        would refuse to do so again.
        """
        name = statement.name
        runs = self._runs[name] = self._runs.get(name, 0) + 1
        if runs != PREPARE_AFTER + 1:
            return False
        sql, _ = _numbered(name, schema)
        conn.pgconn.send_prepare(_prepared_name(name), sql)
        return True

    def _send(self, conn: AsyncConn | SyncConn, statement: Statement[None], schema: str) -> None:
        sql, names = _numbered(statement.name, schema)
        values = _values(statement.params, names)
        if statement.name in self._prepared:
            conn.pgconn.send_query_prepared(_prepared_name(statement.name), values)
        else:
            conn.pgconn.send_query_params(sql, values)


@cache
def _prepared_name(name: str) -> bytes:
    return f"headway_{name}".encode()


def _check(results: list[PGresult]) -> None:
    if results[-1].status != ExecStatus.COMMAND_OK:
        raise error_from_result(results[-1], "utf-8")


def _values(params: Mapping[str, Any], names: tuple[str, ...]) -> list[bytes | None]:
    given = [params[name] for name in names]
    return [None if value is None else str(value).encode() for value in given]


@cache
def _numbered(name: str, schema: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the text of a statement with `$1` in place of names, and the names in that order."""
    sql = client_text(name, schema)
    names = tuple(dict.fromkeys(_NAMED.findall(sql)))
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    return _NAMED.sub(lambda found: numbers[found[1]], sql).encode(), names
