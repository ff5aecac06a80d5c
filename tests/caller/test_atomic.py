"""G1 on every kind of connection: a job exists if and only if the caller's transaction commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway import Headway, Task
from headway._api import new_job
from headway.errors import ConfigError, KeyTaken, SchemaMismatch
from headway.store.caller import explained
from headway.store.connections.connect import Target
from headway.store.statement import text
from headway.store.statements import inspect
from tests.caller.transactions import Transaction
from tests.store.samples import samples

Seen = Callable[[], list[str]]

_HOLDER = UUID("0190a8d0-0000-7000-8000-000000000001")
# Plain inserts. Those of a caller's transaction tell how many rows they made: `tx.enqueue` runs them.
_WITHOUT_ROWS = {"writes/enqueue_one", "writes/enqueue_one_in", "writes/enqueue_alike"}
_MAY_BE_NULL = {"now", "channel", "done"}


@pytest.fixture
def work(work_table: str) -> str:
    """A statement of the caller's own."""
    return f"insert into {work_table} values ('own')"


def test_g1_a_job_is_there_once_its_transaction_commits_with_the_callers_work(
    tx: Transaction, note: Task[Any, Any], seen: Seen, work: str
) -> None:
    """The job is the first thing that is said in the transaction."""
    job = tx.enqueue(note, "kept")
    tx.execute(work)
    assert seen() == []
    tx.commit()
    assert seen() == ["kept", "own"]
    assert job.status_sync().state == "ready"


def test_g1_a_job_is_never_there_when_its_transaction_rolls_back(
    tx: Transaction, note: Task[Any, Any], seen: Seen, work: str
) -> None:
    tx.enqueue(note, "lost")
    tx.execute(work)
    tx.rollback()
    assert seen() == []


def test_g1_a_job_after_other_work_shares_its_end(
    tx: Transaction, note: Task[Any, Any], seen: Seen, work: str
) -> None:
    tx.execute(work)
    tx.enqueue(note, "lost")
    tx.rollback()
    assert seen() == []


def test_g1_a_savepoint_that_is_rolled_back_takes_its_jobs_with_it(
    tx: Transaction, note: Task[Any, Any], seen: Seen
) -> None:
    tx.enqueue(note, "before")
    tx.savepoint()
    tx.enqueue(note, "inside")
    tx.rollback_to_savepoint()
    tx.enqueue(note, "after")
    tx.commit()
    assert seen() == ["after", "before"]


def test_a_unique_key_that_is_taken_is_named_with_the_job_that_has_it(
    tx: Transaction, db: psycopg.Connection[Any]
) -> None:
    db.execute(f"""create or replace function public.refuse() returns int language plpgsql as $$ begin
        raise exception 'the key is taken' using errcode = 'HW001', detail = '{_HOLDER}'; end $$""")
    with pytest.raises(KeyTaken, match=r"^the key is taken; wait for it") as found, explained(str):
        tx.rows("select public.refuse()", {})
    assert found.value.job_id == _HOLDER


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_g1_many_jobs_of_several_statements_share_one_end(
    tx: Transaction, note: Task[Any, Any], seen: Seen, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_job, "_MOST_ROWS", 20)
    many = 50  # three statements
    tx.enqueue_many(note, [{"text": ""}] * many)
    assert seen() == []
    getattr(tx, end)()
    assert len(seen()) == (many if end == "commit" else 0)


def test_the_other_way_to_enqueue_is_refused_and_the_transaction_goes_on(
    tx: Transaction, note: Task[Any, Any], seen: Seen
) -> None:
    with pytest.raises(ConfigError):
        tx.enqueue_the_other_way(note)
    tx.enqueue(note, "kept")
    tx.commit()
    assert seen() == ["kept"]


def test_a_missing_schema_is_named_and_the_transaction_is_left_to_its_caller(
    tx: Transaction, note: Task[Any, Any], seen: Seen, dsn: str, work: str
) -> None:
    app = Headway(dsn, schema="not_there")

    @app.task(name="lost")
    def lost(text: str) -> None: ...

    tx.execute(work)
    tx.savepoint()
    with pytest.raises(
        SchemaMismatch, match=r'"?not_there\S* .*; .*run `headway migrate`'
    ) as found:
        tx.enqueue(lost, "lost")
    assert "[SQL" not in str(found.value), "the server's words, and not those of a layer above"
    tx.rollback_to_savepoint()
    tx.enqueue(note, "kept")
    tx.commit()
    assert seen() == ["kept", "own"]


def test_any_other_refusal_of_the_server_is_the_librarys_to_raise(
    tx: Transaction, note: Task[Any, Any]
) -> None:
    """As for a statement of the caller's own, who may know how to meet it."""
    with pytest.raises(Exception, match="division by zero"):
        tx.execute("select 1/0")
    with pytest.raises(Exception, match="current transaction is aborted") as found:
        tx.enqueue(note, "lost")
    assert type(found.value).__module__.partition(".")[0] == tx.library
    tx.rollback()


@pytest.mark.parametrize(
    "kind",
    [
        "asyncpg",
        "asyncpg-codecs",
        "sqlalchemy-connection-psycopg2",
        "sqlalchemy-async-connection-asyncpg",
        "django-alias",
    ],
)
def test_every_statement_there_is_says_the_same_by_every_driver(
    kind: str, begin: Callable[[str], Transaction], schema: str
) -> None:
    """Also those that nobody runs on a borrowed connection yet, with and without a moment given."""
    given = [*samples(Target("", schema)).values(), inspect.jobs()]
    given += [
        replace(s, params=s.params | dict.fromkeys(_MAY_BE_NULL & s.params.keys())) for s in given
    ]
    ours, theirs = begin("psycopg"), begin(kind)
    for statement in given:
        if statement.name in _WITHOUT_ROWS:
            continue
        sql = text(statement.name, schema)
        expected = ours.rows(sql, statement.params)
        ours.rollback()
        theirs.savepoint()
        found = theirs.rows(sql, statement.params)
        theirs.rollback_to_savepoint()
        assert len(found) == len(expected), statement.name
        assert all(type(row) is tuple for row in found), statement.name
