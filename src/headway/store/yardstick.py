"""Bare SQL in a schema of its own: the yardstick of `headway bench`.

It uses one connection with the settings of an app's own connections, and the same driver. The table is
as narrow as a queue can have it, with the two indexes that no queue can do without.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import LiteralString

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from headway.core.ids import new_id
from headway.errors import DatabaseError
from headway.store.connections.connect import (
    CLIENT_SESSION,
    AsyncConn,
    complete_dsn,
    refuse_standby,
)
from headway.store.faults import DRIVER_ERRORS, translate
from headway.store.statement import fill

APPLICATION = "headway bench"
"""The application name of the connections that are measured, except for those of a worker."""

_ROUND_TRIP = "select 1"
_RIGHTS = """
select current_user::text, current_database()::text,
       has_database_privilege(current_database(), 'create'), pg_is_in_recovery(),
       current_setting('server_version'), current_setting('synchronous_commit'),
       current_setting('fsync')"""
_TABLE = """
create table {schema}.bare (
  id uuid primary key,
  seq bigint generated always as identity,
  run_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  attempt integer not null default 0,
  max_attempts integer not null,
  priority smallint not null,
  state "char" not null,
  queue text collate "C" not null,
  task text collate "C" not null,
  input jsonb not null
);
create index on {schema}.bare (queue, priority, seq) where state = 'r'"""
_INSERT = """
insert into {schema}.bare (id, max_attempts, priority, state, queue, task, input)
values (%s, 20, 0, 'r', 'default', 'noop', %s)"""
_COMMITS_WAIT = "set synchronous_commit = default"
_COMMITS_DO_NOT_WAIT = "set synchronous_commit = off"
_PATIENCE = "set lock_timeout = '30s'"
_DROP = "drop schema if exists {schema} cascade"


class ServerFacts:
    """The server of a benchmark, and whether a schema can be created in its database."""

    def __init__(self, row: tuple[str, str, bool, bool, str, str, str]) -> None:
        self.user, self.database, self.may_create, self.standby = row[:4]
        self.version, self.synchronous_commit, self.fsync = row[4:]

    def check(self) -> None:
        """Raise StandbyRefused or DatabaseError if no schema can be created."""
        refuse_standby(self.standby)
        if not self.may_create:
            raise DatabaseError(
                f"role {self.user} may not create a schema in database {self.database}; run GRANT "
                f"CREATE ON DATABASE {self.database} TO {self.user}, or give another --dsn"
            )


class Yardstick:
    """Bare SQL on one connection."""

    def __init__(self, conn: AsyncConn, schema: str) -> None:
        self._conn = conn
        self._cursor = conn.cursor()
        self._insert: LiteralString = fill(_INSERT, schema)
        self._schema = schema

    async def facts(self) -> ServerFacts:
        """Return what is known of the server."""
        row = await (await self._cursor.execute(_RIGHTS)).fetchone()
        assert row is not None
        return ServerFacts(row)  # type: ignore[arg-type, unused-ignore]

    async def create_table(self) -> None:
        await self._execute(fill(_TABLE, self._schema))

    async def round_trip(self) -> None:
        """Ask for a constant."""
        await self._cursor.execute(_ROUND_TRIP)

    async def insert(self) -> None:
        """Insert one row and commit it."""
        await self._cursor.execute(self._insert, (new_id(), '{"n": 1}'))

    async def wait_for_commits(self, wait: bool) -> None:
        """Let commits wait until they are durable, or not."""
        await self._execute(_COMMITS_WAIT if wait else _COMMITS_DO_NOT_WAIT)

    async def _execute(self, sql: LiteralString) -> None:
        await self._conn.execute(sql, prepare=False)


@asynccontextmanager
async def opened_yardstick(dsn: str, schema: str) -> AsyncGenerator[Yardstick]:
    """Yield bare SQL in a schema. Raise DatabaseUnavailable if the server cannot be reached."""
    try:
        conn = await AsyncConnection.connect(complete_dsn(dsn), autocommit=True)
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    try:
        await conn.execute(CLIENT_SESSION)
        conn.prepare_threshold = 0
        yield Yardstick(conn, schema)
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    finally:
        await conn.close()


def drop_schema(dsn: str, schema: str) -> None:
    """Remove a schema and everything in it."""
    try:
        with psycopg.connect(complete_dsn(dsn), autocommit=True) as conn:
            conn.execute(CLIENT_SESSION)
            conn.execute(_PATIENCE)
            conn.execute(fill(_DROP, schema))
    except DRIVER_ERRORS as error:
        raise translate(error) from error


def named_dsn(dsn: str) -> str:
    """Return the DSN with the application name of a benchmark's connections."""
    return make_conninfo(complete_dsn(dsn), application_name=APPLICATION)
