"""G16: what each role must not do by SQL, tried one by one: the audit's table "What held"."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway.store import migrate
from tests.sql.hand import TABLES, Hand

_DENIED = psycopg.errors.InsufficientPrivilege
_KINDS = ("producer", "reader", "operator", "worker")
_NOBODY = "00000000-0000-0000-0000-000000000000"

_OPERATING = [
    f"select retry('{_NOBODY}')",
    f"select cancel('{_NOBODY}')",
    f"select edit('{_NOBODY}', '{{}}')",
    "select pause('q')",
    "select resume('q')",
    "select set_limit('q', 1)",
    "select reset_limit('q')",
    "select drain(1)",
    "select purge('q')",
    "select move('q', 'p')",
    "select pause_schedule('s')",
    "select resume_schedule('s')",
    "select run_schedule('s')",
    "select operator_cancel('[]', null, null, null)",
    f"select operator_revive('{_NOBODY}', null, null, null)",
    f"select operator_edit('{_NOBODY}', null, '{{}}')",
    "select operator_mark_limited(null)",
]
_CONSUMING = [
    "select claim('q')",
    f"select complete('{_NOBODY}', 1)",
    f"select fail('{_NOBODY}', 1, 'x')",
    f"select release('{_NOBODY}', 1)",
    f"select snooze('{_NOBODY}', 1, '1 s')",
    f"select extend('{_NOBODY}', 1, '1 s')",
    f"select advance('{_NOBODY}', 1, 's', '{{}}')",
    "select sweep()",
    "select prune()",
    "select add_partitions(now(), 400)",
    "select drop_partitions(now())",
    "select empty_nets(now())",
]
_MAKING = [
    "select enqueue('t')",
    """select enqueue_many('[{"task": "t"}]')""",
    "insert into inbox (task) values ('t')",
    "select enqueue_jobs('[]', null, null)",
    "insert into new_jobs (id, max_attempts, priority, queue, task, step, input) "
    "values (gen_random_uuid(), 1, 0, 'q', 't', '', '{}')",
]
_READING = [
    *(f"table {table}" for table in TABLES if table != "migration"),
    "table schedule",
    "table jobs",
    "table queues",
    "table controls",
    "table schedules",
    "select metrics()",
    "select measure(null, null)",
    "select live_jobs()",
    f"select explain('{_NOBODY}')",
    f"select reader_await('{_NOBODY}', null)",
]
_WRITING = [
    statement
    for table in (*TABLES, "schedule", "bucket", "start", "migration", "definition")
    for statement in (
        f"insert into {table} default values",
        f"delete from {table}",
        f"select 1 from {table} for update",
        f"select 1 from {table} for key share",
        f"lock table {table} in row exclusive mode",
    )
]
# Of all roles, the worker's too.
_OWNING = [
    "create table mine (id int)",
    "create function mine() returns int language sql as 'select 1'",
    "create or replace function label(state \"char\") returns text language sql as 'select 1'",
    "alter function enqueue_jobs security invoker",
    "alter function explain reset search_path",
    "alter table job add column mine int",
    "alter table job disable trigger all",
    "create index on job (task)",
    "create trigger mine after insert on job execute function explain_ended()",
    "create rule mine as on insert to job do nothing",
    "drop table job",
    "drop schema {schema} cascade",
    "alter schema {schema} rename to mine",
    "truncate job",
    "truncate archive",
    "reindex table job",
    "update migration set version = 9",
    "delete from migration",
    "update definition set checksum = ''",
    "select grant_rights(true)",
    "grant {schema}_operator to current_user",
    "create role mine",
    "set role {owner}",
    "alter role {owner} nologin",
    "copy job to program 'true'",
    "select pg_read_file('/etc/passwd')",
]

_BOUNDS = {
    "producer": [*_READING, *_OPERATING, *_CONSUMING, *_WRITING],
    "reader": [*_MAKING, *_OPERATING, *_CONSUMING, *_WRITING, "table inbox", "table total"],
    "operator": [*_MAKING, *_CONSUMING, *_WRITING, "table inbox", "table total"],
    "worker": [],
}
_CASES = [(kind, query) for kind, queries in _BOUNDS.items() for query in [*queries, *_OWNING]]


@pytest.fixture(scope="module")
def logins(dsn: str) -> Iterator[dict[str, Hand]]:
    """A connection of a login of each role, in autocommit."""
    schema = f"hw_bounds_{os.getpid()}"
    migrate.run_sync(dsn, schema, roles=True)
    hands: dict[str, Hand] = {}
    with psycopg.connect(dsn, autocommit=True) as conn:
        for kind in _KINDS:
            login, role = f"{schema}_{kind}_login", f"{schema}_{kind}"
            make = sql.SQL("create role {} login password 'x' in role {}")
            conn.execute(make.format(sql.Identifier(login), sql.Identifier(role)))
            hands[kind] = Hand(make_conninfo(dsn, user=login, password="x"), schema)
        yield hands
        conn.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)))
        for kind, hand in hands.items():
            hand.close()
            for role in (f"{schema}_{kind}_login", f"{schema}_{kind}"):
                conn.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
                conn.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.fixture(scope="module")
def owner(dsn: str) -> str:
    with psycopg.connect(dsn) as conn:
        (name,) = conn.execute("select current_user").fetchone() or ("",)
    return name


@pytest.mark.parametrize(("kind", "query"), _CASES)
def test_g16_a_role_is_refused_what_is_not_its_job(
    logins: dict[str, Hand], owner: str, kind: str, query: str
) -> None:
    hand = logins[kind]
    filled = query.replace("{schema}", hand.schema).replace("{owner}", owner)
    with pytest.raises(_DENIED), hand.conn.transaction():
        hand.rows(filled)


@pytest.mark.parametrize("kind", _KINDS)
def test_g16_a_role_does_by_sql_what_it_is_for(logins: dict[str, Hand], kind: str) -> None:
    """The same calls, so that a refusal above is one of rights and not of a wrong name."""
    calls = {
        "producer": _MAKING,
        "reader": _READING[-10:],
        "operator": [*_READING[-10:], *_OPERATING],
        "worker": [*_MAKING, *_READING, *_OPERATING, *_CONSUMING],
    }[kind]
    hand = logins[kind]
    for query in calls:
        with hand.conn.transaction(force_rollback=True):
            hand.rows(query)


@pytest.mark.parametrize(
    "call",
    [
        "operator_set_limit('queue', 'q', null, 'NaN', 1, null, null, null)",
        "operator_set_limit('queue', 'q', null, 'Infinity', 1, null, null, null)",
        "operator_set_limit('queue', 'q', -1, null, null, null, null, null)",
        "operator_set_limit('queue', 'q', null, 1, null, null, null, null)",
        "operator_set_limit('queue', repeat('q', 9000), 1, null, null, null, null, null)",
        "operator_set_limit('keys', 'q', 0, null, null, null, null, null)",
        "operator_pause('queue', 'q', null, null, 'infinity', null, null, null)",
        "operator_pause('queue', 'q', null, null, null, 'NaN', null, null)",
        "operator_pause('queue', 'q', null, null, null, 1e12, null, null)",
        "operator_pause('key', repeat('k', 9000), null, null, null, null, null, null)",
        "operator_pause('key', E'a\\nb', null, null, null, null, null, null)",
        f"operator_edit('{_NOBODY}', null, '[]')",
        f"operator_transfer('q', repeat('t', 9000), null, '{_NOBODY}', null, null, null)",
        f"operator_transfer('q', null, null, '{_NOBODY}', null, null, null)",
    ],
)
def test_g8_what_an_operator_says_to_the_functions_behind_python_is_checked(
    logins: dict[str, Hand], call: str
) -> None:
    """A rate that is not a number would end every claim of the queue with an error."""
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        logins["operator"].rows(f"select * from {call}")


def test_g16_a_reader_locks_nothing_that_a_worker_needs(logins: dict[str, Hand]) -> None:
    """`select` lets it lock a table against changes of the schema, as any query does."""
    reader, worker = logins["reader"], logins["worker"]
    with reader.conn.transaction():
        reader.rows("lock table job, archive, control in access share mode")
        worker.enqueue(queue="calm")
        (claimed,) = worker.claim("calm")
        assert worker.settle("complete", claimed)


def _rights(hand: Hand, kind: str) -> set[tuple[Any, ...]]:
    query = """
        select table_name, privilege_type from information_schema.role_table_grants
        where table_schema = %s and grantee = %s"""
    role = f"{hand.schema}_{kind}"
    return {
        (row["table_name"], row["privilege_type"]) for row in hand.rows(query, hand.schema, role)
    }


@pytest.mark.parametrize("kind", ["reader", "operator"])
def test_g16_readers_and_operators_have_no_right_to_a_table_but_select(
    logins: dict[str, Hand], dsn: str, kind: str
) -> None:
    with_rights = Hand(dsn, logins[kind].schema)
    try:
        assert {right for _, right in _rights(with_rights, kind)} == {"SELECT"}
        assert _rights(with_rights, kind) == _rights(with_rights, "reader")
    finally:
        with_rights.close()
