"""The plan of a statement as the engine's own connections have it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from headway.store.statement import Statement, text
from tests.store.store import Store, engine_connection


def plan(store: Store, statement: Statement[Any]) -> list[dict[str, Any]]:
    """The nodes of the generic plan of the statement as the engine prepares it, the top one first."""
    return _explain(store, statement, statement, "format json")


def measure(store: Store, statement: Statement[Any], idle: Statement[Any]) -> list[dict[str, Any]]:
    """The same, run for the counts of rows and blocks. `idle` is one of its kind that does nothing;
    preparing it means running it."""
    return _explain(store, statement, idle, "analyze, buffers, format json")


def _explain(
    store: Store, statement: Statement[Any], first: Statement[Any], how: str
) -> list[dict[str, Any]]:
    query = text(statement.name, store.schema)
    # The driver numbers parameters in the order in which they first appear.
    names = dict.fromkeys(re.findall(r"%\((\w+)\)s", query))
    values = [sql.Literal(statement.params[name]) for name in names]
    # Nothing stays of either run: not of preparing it, not of measuring.
    with engine_connection(store.dsn) as conn, conn.transaction(force_rollback=True):
        conn.execute(query, first.params, prepare=True)
        ((prepared,),) = conn.execute("select name from pg_prepared_statements").fetchall()
        execute = sql.SQL("execute {} ({})") if values else sql.SQL("execute {}")
        given = execute.format(sql.Identifier(prepared), sql.SQL(", ").join(values))
        with psycopg.ClientCursor(conn) as cursor:
            cursor.execute(sql.SQL(f"explain ({how}) ") + given)  # type: ignore[arg-type]
            (row,) = cursor.fetchall()
    return list(_nodes(row[0][0]["Plan"]))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
