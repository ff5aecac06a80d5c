"""A connection that does everything by SQL, and looks at what it left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.support import DEADLINE

TABLES = (
    "job",
    "archive",
    "attempt",
    "worker",
    "leader",
    "control",
    "awaited",
    "fan_in",
    "stop_request",
    "drain_request",
    "unkept",
    "task",
    "unique_period",
    "tally",
    "total",
    "census",
)


class Hand:
    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema
        self.conn = psycopg.connect(dsn, autocommit=True, row_factory=dict_row)
        self.conn.execute(sql.SQL("set search_path = {}").format(sql.Identifier(schema)))

    def close(self) -> None:
        self.conn.close()

    def rows(self, query: str, *params: Any) -> list[dict[str, Any]]:
        cursor = self.conn.execute(query, params or None)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def row(self, query: str, *params: Any) -> dict[str, Any]:
        (row,) = self.rows(query, *params)
        return row

    def value(self, query: str, *params: Any) -> Any:
        return next(iter(self.row(query, *params).values()))

    def call(self, function: str, *given: Any, **named: Any) -> Any:
        """Return what a function returns. Arguments go by position and by name, as in SQL."""
        marks = ["%s"] * len(given) + [f"{name} => %s" for name in named]
        values = [_json(value) for value in (*given, *named.values())]
        return self.value(f"select {self.schema}.{function}({', '.join(marks)})", *values)

    def enqueue(self, task: str = "greet", input_: Any = None, **options: Any) -> UUID:
        return self.call("enqueue", task, {} if input_ is None else input_, **options)

    def claim(self, queue: str = "default", count: int = 1, **options: Any) -> list[dict[str, Any]]:
        options = {"lease": "1 hour"} | options  # longer than any test
        marks = "".join(f", {name} => %s" for name in options)
        query = f"select * from {self.schema}.claim(%s, %s{marks})"
        return self.rows(query, queue, count, *options.values())

    def held(self, task: str = "greet", input_: Any = None, **options: Any) -> dict[str, Any]:
        """A new job, claimed. Nothing else may be ready in its queue."""
        self.enqueue(task, input_, **options)
        self.sweep()
        (claimed,) = self.claim(options.get("queue", "default"))
        return claimed

    def settle(self, function: str, claimed: dict[str, Any], *given: Any, **named: Any) -> bool:
        return self.call(function, claimed["id"], claimed["claim"], *given, **named)

    def sweep(self) -> dict[str, int]:
        return self.row("select * from sweep()")

    def job(self, job_id: UUID) -> dict[str, Any]:
        """The row of `job`."""
        return self.row("select * from job where id = %s", job_id)

    def state(self, job_id: UUID) -> str:
        return self.value("select state from jobs where id = %s", job_id)

    def ended(self, job_id: UUID) -> dict[str, Any]:
        """A job that has ended, as the view shows it."""
        return self.row("select * from jobs where id = %s and finished_at is not null", job_id)

    def engine_lives(self) -> None:
        """Make it look as if a worker of the engine were the leader. It does nothing."""
        self.rows("insert into leader values ('sweeps', 0, now() + interval '1 hour')")

    def lose_consumers(self) -> None:
        """Every lease runs out."""
        self.rows("update worker set expires_at = now() - interval '1 s'")

    def everything(self) -> dict[str, list[str]]:
        """Every row of every table, with where it lies: equal only if nothing was written."""
        query = "select tableoid::regclass::text || ctid::text || t::text as line from {} t"
        return {
            table: sorted(row["line"] for row in self.rows(query.format(table))) for table in TABLES
        }

    def clear(self) -> None:
        for table in TABLES:
            self.rows(f"delete from {table}")
        self.rows("select setval('swept', 1)")

    @contextmanager
    def listening(self) -> Iterator[Callable[[], list[str]]]:
        """Gives a function that says what workers were told since."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("listen {}").format(sql.Identifier(f"{self.schema}_work")))
            conn.execute("listen test_end")

            def heard() -> list[str]:
                # Notifications arrive in the order of commits: behind ours, nothing is missing.
                self.rows("notify test_end")
                found: list[str] = []
                for notice in conn.notifies(timeout=DEADLINE):
                    if notice.channel == "test_end":
                        return found
                    found.append(notice.payload)
                raise AssertionError("the end was never heard")

            yield heard


def _json(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, dict | list) else value
