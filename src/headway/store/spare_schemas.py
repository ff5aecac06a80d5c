"""Migrated schemas for tests: lent to one test after another, and emptied in between.

Emptying a schema takes a small part of the time of migrating one. A schema is lent again only if nothing
but rows was changed in it, and no worker may still use it. Else it is dropped.

The name of a schema contains the server process of the connection that made it. A schema whose process
is gone was left by a test run that was killed, and the next run drops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg import sql

from headway.store import migrate
from headway.store.connections.connect import CLIENT_SESSION
from headway.store.connections.dsn import plain_dsn
from headway.store.faults import DRIVER_ERRORS, translate
from headway.store.statement import Statement, fill, text

R = TypeVar("R")

APPLICATION = "headway test schemas"
PREFIX = "headway_test_"

_PATIENCE = "set lock_timeout = '2s'"
_DROP = "drop schema if exists {schema} cascade"
_CLEANING = "select pg_try_advisory_lock(%s)"
_CLEANED = "select pg_advisory_unlock(%s)"
_LOCK = 7_231_509_661
_LEFT = """
select nspname from pg_namespace
where nspname ~ %s and split_part(nspname, '_', 3)::integer <> all (array(
  select pid from pg_stat_activity where application_name = %s and pid <> pg_backend_pid()))"""
_USED = "select exists (select 1 from {schema}.worker where expires_at > clock_timestamp())"
_LOOKS = """
select md5(concat((select string_agg(concat(oid, relname), ',' order by oid) from pg_class
                   where relnamespace = %(schema)s::regnamespace),
                  (select string_agg(concat(oid, xmin), ',' order by oid) from pg_proc
                   where pronamespace = %(schema)s::regnamespace)))"""
_FILLED = """
select c.oid::regclass::text from pg_class c
where c.relnamespace = %(schema)s::regnamespace and c.relkind = 'r'
  and c.relname not in ('migration', 'definition') and pg_relation_size(c.oid) > 0"""
_EMPTY = "truncate {tables}"
_RESTART = """
select setval(c.oid, s.seqstart, false) from pg_class c join pg_sequence s on s.seqrelid = c.oid
where c.relnamespace = %(schema)s::regnamespace"""


class SpareSchemas:
    """The test schemas of one process in one database."""

    def __init__(self, dsn: str) -> None:
        """Connect, and drop the schemas that killed runs have left."""
        self.dsn = plain_dsn(dsn)
        self._free: dict[str, str] = {}
        """The schemas that can be lent, with what they looked like when they were new."""
        self._lent: dict[str, str] = {}
        self._made = 0
        try:
            self._conn = psycopg.connect(self.dsn, autocommit=True, application_name=APPLICATION)
            self._conn.execute(CLIENT_SESSION)
            self._run(_PATIENCE)
            self._drop_left()
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    def take(self) -> str:
        """Return the name of a migrated, empty schema."""
        if self._free:
            name, looks = self._free.popitem()
        else:
            self._made += 1
            name = f"{PREFIX}{self._conn.info.backend_pid}_{self._made}"
            migrate.run_sync(self.dsn, name)
            looks = self._one(_LOOKS, {"schema": name})
        self._lent[name] = looks
        return name

    def give_back(self, name: str) -> None:
        """Empty a schema for the next test, or drop it."""
        looks = self._lent.pop(name)
        try:
            if not self._one(fill(_USED, name)) and self._one(_LOOKS, {"schema": name}) == looks:
                self._empty(name)
                self._free[name] = looks
                return
        except (pg.LockNotAvailable, pg.UndefinedTable, pg.InvalidSchemaName):
            pass  # a test has it locked, or has dropped it
        self._drop(name)

    def ask(self, name: str, statement: Statement[R]) -> R:
        """Return the answer of a statement that reads, from one of the schemas."""
        cursor = self._conn.execute(text(statement.name, name), statement.params)
        return statement.read(cursor.fetchall())

    def close(self) -> None:
        """Drop all schemas and disconnect."""
        with suppress(*DRIVER_ERRORS):
            for name in [*self._free, *self._lent]:
                self._drop(name)
        self._conn.close()

    def _empty(self, name: str) -> None:
        tables = [row[0] for row in self._run(_FILLED, {"schema": name})]
        if tables:
            self._conn.execute(
                sql.SQL(_EMPTY).format(tables=sql.SQL(", ".join(tables)))  # pyright: ignore[reportArgumentType]
            )
        self._run(_RESTART, {"schema": name})

    def _drop(self, name: str) -> None:
        # A schema that somebody has locked is left to the next run.
        with suppress(pg.LockNotAvailable):
            self._run(fill(_DROP, name))

    def _drop_left(self) -> None:
        if not self._one(_CLEANING, [_LOCK]):
            return  # another process does it
        try:
            for (name,) in self._run(_LEFT, [f"^{PREFIX}[0-9]+_[0-9]+$", APPLICATION]):
                self._drop(name)
        finally:
            self._run(_CLEANED, [_LOCK])

    def _run(self, query: Any, params: Any = None) -> Sequence[tuple[Any, ...]]:
        cursor = self._conn.execute(query, params)
        return cursor.fetchall() if cursor.description else []

    def _one(self, query: Any, params: Any = None) -> Any:
        return self._run(query, params)[0][0]
