"""Migrations: they bring the schema up to date, and refuse one that does not fit.

Migrations are numbered SQL files that never change once released: each is recorded with a checksum.
All pending ones run in one transaction, under a lock of that transaction. So any number of processes
may migrate at the same time, and a failure changes nothing. Every name is qualified.

A migration may suit libraries that do not know it yet. `-- Suits libraries from version 3 on.` at its
top means that a library whose newest migration is 3 works with the schema (G13) and does not change it.

Functions and views (`sql/functions`) are replaced whenever their text has changed. Functions for SQL
callers contain the engine's own text: `{move claim}`, `{write x}` and `{read x}` stand for the statement
of that name. Its parameters are the variables `_name` of the function. Parts are inlined as in
statements (store/statement.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, LiteralString

import psycopg
from psycopg import errors as pg

from headway.errors import SchemaMismatch
from headway.store.statement import _SQL, fill, source  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return checksum(self.text)

    @property
    def suits(self) -> int:
        """Return the oldest library that works with it, by the version of its newest migration."""
        said = _SUITS.match(self.text)
        return int(said[1]) if said else self.version


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations of this library, oldest first."""
    files = sorted((_SQL / "migrations").iterdir(), key=lambda file: file.name)
    return tuple(
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text("utf-8"))
        for file in files
        if file.name.endswith(".sql")
    )


@cache
def functions() -> tuple[tuple[str, str], ...]:
    """Return the name and text of each file of functions and views, in the order of creation."""
    files = sorted((_SQL / "functions").iterdir(), key=lambda file: file.name)
    return tuple(
        (name, _PARAMETER.sub(r"_\1", _INLINED.sub(_statement, source(f"functions/{name}"))))
        for name in (file.name.removesuffix(".sql") for file in files)
    )


_INLINED = re.compile(r"\{(move|write|read) (\w+)\}")
_PARAMETER = re.compile(r"%\((\w+)\)s")
_SUITS = re.compile(r"-- Suits libraries from version (\d+) on\.$", re.MULTILINE)


def _statement(reference: re.Match[str]) -> str:
    return source(f"{reference[1]}s/{reference[2]}").strip()


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def newest() -> int:
    return migrations()[-1].version


# The owners of the schema and of its tables. A trusted owner is the migrator, a superuser, or a role that
# the migrator is a member of. A superuser's membership in every role does not count.
_FOUND = """
with me as (
  select oid, rolname, rolsuper from pg_catalog.pg_roles where rolname = current_user
),
held as (
  select n.oid as schema,
         case pg_catalog.pg_get_userbyid(n.nspowner) when 'pg_database_owner' then d.datdba
              else n.nspowner end as owner
  from pg_catalog.pg_namespace n, pg_catalog.pg_database d
  where n.nspname = %s and d.datname = pg_catalog.current_database()
),
relation as (
  select c.oid, c.relname::text as name, c.relowner as owner
  from held h join pg_catalog.pg_class c on c.relnamespace = h.schema
  where c.relkind in ('r', 'p', 'v', 'm', 'f')
),
owned as (
  select '' as name, owner from held
  union all
  select name, owner from relation where name in ('migration', 'definition')
),
distrusted as (
  select o.name, pg_catalog.pg_get_userbyid(o.owner)::text as owner
  from me, owned o join pg_catalog.pg_roles r on r.oid = o.owner
  where not (o.owner = me.oid or r.rolsuper
             or not me.rolsuper and pg_catalog.pg_has_role(me.oid, o.owner, 'member'))
)
select me.rolname,
       array(select array[d.name, d.owner] from distrusted d order by d.name),
       array(select r.name from relation r order by r.name),
       array(select a.attname::text
             from relation r join pg_catalog.pg_attribute a on a.attrelid = r.oid
             where r.name = 'migration' and a.attnum > 0 and not a.attisdropped)
from me, held"""
_COLUMNS = {"version", "name", "checksum", "suits", "applied_at"}

_SCHEMA = "create schema if not exists {schema}"
_LEDGER = """
create table if not exists {schema}.migration (
  version integer primary key,
  name text not null,
  checksum text not null,
  suits integer not null,
  applied_at timestamptz not null default now()
);
create table if not exists {schema}.definition (
  name text collate "C" primary key,
  checksum text not null
)"""
# So no function of another schema is used in place of the server's, also while ours are created.
_PINS = "set local search_path = pg_catalog, pg_temp"
# A migration may take longer than the database allows others.
_UNHURRIED = """
select set_config(name, '0', true) from pg_settings
where name in ('statement_timeout', 'transaction_timeout')"""
_LOCK = "select pg_advisory_xact_lock(hashtextextended('{schema}.migration', 0::bigint))"
_APPLIED = "select version, checksum, suits from {schema}.migration order by version"
_RECORD = "insert into {schema}.migration (version, name, checksum, suits) values (%s, %s, %s, %s)"
_DEFINED = "select name, checksum from {schema}.definition"
_DEFINE = """
insert into {schema}.definition (name, checksum) values (%s, %s)
on conflict (name) do update set checksum = excluded.checksum"""
_GRANT = "select {schema}.grant_rights(%s)"
_VERSION = "select max(version), max(suits) from {schema}.migration"

# After waiting for the lock, a process must see what its holder committed, whatever the default is.
_ISOLATION = psycopg.IsolationLevel.READ_COMMITTED

_NAMED = 5
"""How many unknown tables a message names."""

Step = tuple[LiteralString, Sequence[Any]]


def steps(schema: str, roles: bool = False) -> Generator[Step, list[tuple[Any, ...]], list[str]]:
    """Yield the statements to run, in one transaction. Receive the rows of each. Return what was applied.

    Rights are granted again after every change. Roles are created only on request.

    It is a generator, so that the sync and the async runner share every decision.
    """
    yield _PINS, ()
    yield _UNHURRIED, ()
    yield fill(_LOCK, schema), ()
    found = yield fill(_FOUND, schema), (schema,)
    check_place(found, schema)
    if not found:  # `if not exists` needs a right in the database even if the schema exists
        yield fill(_SCHEMA, schema), ()
    yield fill(_LEDGER, schema), ()
    applied = {version: rest for version, *rest in (yield fill(_APPLIED, schema), ())}
    check(applied, schema)
    if max(applied, default=0) > newest():
        return []  # a newer library made it, and it suits this one
    done: list[str] = []
    for migration in migrations():
        if migration.version not in applied:
            yield fill(migration.text, schema), ()
            yield fill(_RECORD, schema), _recorded(migration)
            done.append(migration.name)
    defined = dict((yield fill(_DEFINED, schema), ()))
    for name, body in functions():
        if defined.get(name) != checksum(body):
            yield fill(body, schema), ()
            yield fill(_DEFINE, schema), (name, checksum(body))
            done.append(name)
    if done or roles:
        yield fill(_GRANT, schema), (roles,)
    return [*done, "roles"] if roles else done


def _recorded(migration: Migration) -> tuple[int, str, str, int]:
    return migration.version, migration.name, migration.checksum, migration.suits


def check_place(found: Sequence[Sequence[Any]], schema: str) -> None:
    """Raise SchemaMismatch if the schema has another owner, or is used for something else."""
    for user, strangers, relations, columns in found:
        if strangers:
            (name, owner), *_ = strangers
            what = f"table {schema}.{name}" if name else f"schema {schema}"
            give = f"ALTER {'TABLE' if name else 'SCHEMA'} {what.partition(' ')[2]} OWNER TO {user}"
            raise SchemaMismatch(
                f"{what} belongs to {owner}, and this is {user}; migrate as {owner}, or run {give}"
            )
        if columns and not set(columns) >= _COLUMNS:
            raise SchemaMismatch(_not_ours(schema))
        if relations and not columns:
            some = ", ".join(relations[:_NAMED]) + (", ..." if len(relations) > _NAMED else "")
            raise SchemaMismatch(
                f"schema {schema} has tables that are not Headway's ({some}); choose another schema "
                "(--schema, or Headway(schema=...)), or move them elsewhere"
            )


def check(applied: Mapping[int, Sequence[Any]], schema: str) -> None:
    """Raise SchemaMismatch if the schema is too new for this library, or its history is not ours."""
    known = {migration.version: migration for migration in migrations()}
    for version, (checksum, suits) in applied.items():
        if version not in known:
            refuse(version, suits, schema)
        elif known[version].checksum != checksum:
            raise SchemaMismatch(
                f"migration {known[version].name} of schema {schema} was applied with other contents "
                "than this library has; it was edited after its release, or the schema is not ours"
            )


def run_sync(dsn: str, schema: str, *, roles: bool = False) -> list[str]:
    """Apply pending migrations, and create roles on request. Return the names of what was applied."""
    with psycopg.connect(
        dsn, prepare_threshold=None
    ) as conn:  # a pooler would keep what is prepared
        conn.isolation_level = _ISOLATION
        conn.read_only = False
        plan = steps(schema, roles)
        try:
            sql, params = next(plan)
            while True:
                cursor = conn.execute(sql, params or None)
                rows = cursor.fetchall() if cursor.description else []
                sql, params = plan.send(rows)
        except StopIteration as finished:
            return list(finished.value)


async def run(dsn: str, schema: str, *, roles: bool = False) -> list[str]:
    """Apply pending migrations, and create roles on request. Return the names of what was applied."""
    async with await psycopg.AsyncConnection.connect(dsn, prepare_threshold=None) as conn:
        await conn.set_isolation_level(_ISOLATION)
        await conn.set_read_only(False)
        plan = steps(schema, roles)
        try:
            sql, params = next(plan)
            while True:
                cursor = await conn.execute(sql, params or None)
                rows = await cursor.fetchall() if cursor.description else []
                sql, params = plan.send(rows)
        except StopIteration as finished:
            return list(finished.value)


def script(schema: str, *, roles: bool = False) -> str:
    """Return all migrations and functions as one SQL script, for a database without the schema.

    It may fail if it is run twice."""
    opening = (_PINS, _UNHURRIED, _LOCK, _SCHEMA, _LEDGER)
    parts = ["begin;", *(f"{fill(part, schema).strip()};" for part in opening)]
    for migration in migrations():
        parts += [f"-- {migration.name}", fill(migration.text, schema).strip()]
        parts.append(
            f'insert into "{schema}".migration (version, name, checksum, suits) '
            "values ({}, '{}', '{}', {});".format(*_recorded(migration))
        )
    for name, body in functions():
        parts += [f"-- {name}", fill(body, schema).strip()]
        parts.append(
            f'insert into "{schema}".definition (name, checksum) '
            f"values ('{name}', '{checksum(body)}');"
        )
    parts.append(f"{fill(_GRANT, schema) % str(roles).lower()};")
    return "\n\n".join([*parts, "commit;"]) + "\n"


async def verify(conn: psycopg.AsyncConnection[Any], schema: str) -> None:
    """Raise SchemaMismatch if the schema is missing, older, or newer and does not suit this library."""
    try:
        row = await (await conn.execute(fill(_VERSION, schema))).fetchone()
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        raise SchemaMismatch(_missing(schema)) from None
    except pg.UndefinedColumn:
        raise SchemaMismatch(_not_ours(schema)) from None
    version, suits = row or (None, None)
    refuse(version, suits, schema)


def verify_sync(conn: psycopg.Connection[Any], schema: str) -> None:
    """Raise SchemaMismatch if the schema is missing, older, or newer and does not suit this library."""
    try:
        row = conn.execute(fill(_VERSION, schema)).fetchone()
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        raise SchemaMismatch(_missing(schema)) from None
    except pg.UndefinedColumn:
        raise SchemaMismatch(_not_ours(schema)) from None
    version, suits = row or (None, None)
    refuse(version, suits, schema)


def refuse(version: int | None, suits: int | None, schema: str) -> None:
    if version is None or suits is None:
        raise SchemaMismatch(_missing(schema))
    if version < newest():
        raise SchemaMismatch(
            f"schema {schema} is at version {version} and this library needs {newest()}; "
            "run `headway migrate`"
        )
    if suits > newest():
        raise SchemaMismatch(_newer(schema, version))


def _not_ours(schema: str) -> str:
    return (
        f"table {schema}.migration is not Headway's: it lacks columns that a Headway schema has; choose "
        "another schema (--schema, or Headway(schema=...)), or rename that table"
    )


def _missing(schema: str) -> str:
    return f"there is no Headway schema {schema!r} in this database; run `headway migrate`"


def _newer(schema: str, version: int) -> str:
    return (
        f"schema {schema} is at version {version}, newer than this library ({newest()}); "
        "upgrade the headway package"
    )
