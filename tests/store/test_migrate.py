"""migrate.py: the schema appears once, in its place, and one that does not fit is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headway.errors import SchemaMismatch
from headway.store import migrate
from headway.store.migrate import Migration
from tests.store.catalog import contents, outside
from tests.support import eventually_sync

_FUNCTIONS = [name for name, _ in migrate.functions()]
_ALL = [*(migration.name for migration in migrate.migrations()), *_FUNCTIONS]


def _defined(conn: psycopg.Connection[Any]) -> dict[str, str]:
    """The checksums of what was defined last."""
    return dict(conn.execute("select name, checksum from headway.definition").fetchall())


def test_a_fresh_database_gets_every_migration(fresh: str, look: psycopg.Connection[Any]) -> None:
    assert migrate.run_sync(fresh, "headway") == _ALL
    recorded = look.execute(
        "select version, name, checksum from headway.migration order by 1"
    ).fetchall()
    assert recorded == [(m.version, m.name, m.checksum) for m in migrate.migrations()]
    assert _defined(look) == {name: migrate.checksum(body) for name, body in migrate.functions()}
    migrate.verify_sync(look, "headway")


def test_no_index_depends_on_the_order_of_words_in_a_language(
    fresh: str, look: psycopg.Connection[Any]
) -> None:
    """It changes with the system's libraries, and then finds a key that is there no more."""
    migrate.run_sync(fresh, "headway")
    query = """
        select indexrelid::regclass::text from pg_index, unnest(indcollation) as rule
        where indrelid::regclass::text like 'headway.%' and rule not in (0, '"C"'::regcollation)"""
    assert look.execute(query).fetchall() == []


async def test_the_async_runner_does_the_same(fresh: str, look: psycopg.Connection[Any]) -> None:
    assert await migrate.run(fresh, "hw_one") == _ALL
    migrate.run_sync(fresh, "hw_two")
    assert contents(look, "hw_one") == contents(look, "hw_two")
    async with await psycopg.AsyncConnection.connect(fresh) as conn:
        await migrate.verify(conn, "hw_one")


def _writers(conn: psycopg.Connection[Any]) -> list[Any]:
    """Which transaction wrote each entry of the ledgers, each function and each view last."""
    return conn.execute(
        "select name, xmin::text from headway.migration "
        "union all select name, xmin::text from headway.definition "
        "union all select oid::regprocedure::text, xmin::text from pg_proc "
        "where pronamespace = 'headway'::regnamespace "
        "union all select ev_class::regclass::text, xmin::text from pg_rewrite "
        "where ev_class in ('headway.jobs'::regclass, 'headway.queues'::regclass) order by 1"
    ).fetchall()


def test_migrating_again_changes_nothing(fresh: str, look: psycopg.Connection[Any]) -> None:
    migrate.run_sync(fresh, "headway")
    before = contents(look, "headway"), _writers(look)
    assert migrate.run_sync(fresh, "headway") == []
    assert (contents(look, "headway"), _writers(look)) == before


_PROGRAM = """
import sys
from headway.store import migrate
print(migrate.run_sync(sys.argv[1], "headway"))
"""


@pytest.mark.slow
def test_four_processes_at_the_same_time_apply_it_once(
    fresh: str, look: psycopg.Connection[Any]
) -> None:
    """All of them stand before the lock when it opens; a strict default of the database's is no
    obstacle."""
    look.execute("select pg_advisory_lock(hashtextextended('\"headway\".migration', 0))")
    dsn = make_conninfo(fresh, options="-c default_transaction_isolation=serializable")
    processes = [
        subprocess.Popen([sys.executable, "-c", _PROGRAM, dsn], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    waiting = (
        "select count(*) from pg_stat_activity "
        "where wait_event = 'advisory' and datname = current_database()"
    )
    eventually_sync(lambda: look.execute(waiting).fetchone() == (4,), within=90)
    look.execute("select pg_advisory_unlock_all()")
    said = [process.communicate(timeout=90)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(said) == sorted([*["[]"] * 3, str(_ALL)])


def test_nothing_outside_the_schema_is_touched(fresh: str, look: psycopg.Connection[Any]) -> None:
    before = outside(look, "headway")
    migrate.run_sync(fresh, "headway")
    assert outside(look, "headway") == before


def test_the_search_path_plays_no_part(fresh: str, look: psycopg.Connection[Any]) -> None:
    """A schema that comes first and has tables of the same names is neither used nor changed."""
    look.execute("create schema hw_first")
    for table in ("job", "archive", "attempt", "migration", "worker", "queue"):
        look.execute(f"create table hw_first.{table} (x int)")
    before = contents(look, "hw_first")
    migrate.run_sync(make_conninfo(fresh, options="-c search_path=hw_first"), "hw_behind")
    migrate.run_sync(fresh, "hw_plain")
    assert contents(look, "hw_first") == before
    assert contents(look, "hw_behind") == contents(look, "hw_plain")


def _walk(plan: Generator[Any, Any, list[str]], conn: psycopg.Connection[Any]) -> None:
    rows: list[Any] | None = None
    with suppress(StopIteration):
        while True:
            query, params = plan.send(rows)
            cursor = conn.execute(query, params or None)
            rows = cursor.fetchall() if cursor.description else []


def test_the_callers_search_path_stays_as_it_was(fresh: str) -> None:
    with psycopg.connect(make_conninfo(fresh, options="-c search_path=mine")) as conn:
        _walk(migrate.steps("headway"), conn)
        conn.commit()
        assert conn.execute("show search_path").fetchone() == ("mine",)
        assert conn.execute("show lock_timeout").fetchone() == ("0",)


def test_two_schemas_stand_side_by_side(fresh: str, look: psycopg.Connection[Any]) -> None:
    migrate.run_sync(fresh, "hw_one")
    alone = contents(look, "hw_one")
    assert migrate.run_sync(fresh, "hw_other_name") == _ALL
    assert contents(look, "hw_one") == alone == contents(look, "hw_other_name")
    look.execute("drop schema hw_one cascade")
    migrate.verify_sync(look, "hw_other_name")


def test_the_script_makes_the_same_schema(fresh: str, look: psycopg.Connection[Any]) -> None:
    migrate.run_sync(fresh, "by_runner")
    look.execute(migrate.script("by_script"))  # type: ignore[arg-type]
    made = contents(look, "by_script")
    assert made == contents(look, "by_runner")
    assert all(made[kind] for kind in made), "the comparison compares something of every kind"
    for query in (
        "select version, name, checksum, suits from {}.migration order by 1",
        "select name, checksum from {}.definition order by 1",
    ):
        by_script, by_runner = (
            look.execute(query.format(name)).fetchall() for name in ("by_script", "by_runner")
        )
        assert by_script == by_runner
    assert migrate.run_sync(fresh, "by_script") == []
    migrate.verify_sync(look, "by_script")


def _refusal(conn: psycopg.Connection[Any], schema: str = "headway") -> str:
    with pytest.raises(SchemaMismatch) as refused:
        migrate.verify_sync(conn, schema)
    return str(refused.value)


async def test_a_missing_schema_is_refused(fresh: str, look: psycopg.Connection[Any]) -> None:
    assert "no Headway schema" in _refusal(look)
    assert "run `headway migrate`" in _refusal(look)
    async with await psycopg.AsyncConnection.connect(fresh) as conn:
        with pytest.raises(SchemaMismatch, match="run `headway migrate`"):
            await migrate.verify(conn, "headway")


def test_a_ledger_without_entries_is_a_missing_schema(
    fresh: str, look: psycopg.Connection[Any]
) -> None:
    migrate.run_sync(fresh, "headway")
    look.execute("delete from headway.migration")
    assert "no Headway schema" in _refusal(look)


_NEXT = migrate.newest() + 1
_LATER = Migration(_NEXT, f"{_NEXT:04}_later", "create table {schema}.later (x integer)")
_BROKEN = Migration(
    _NEXT + 1,
    f"{_NEXT + 1:04}_broken",
    "create table {schema}.half (x integer); select 1 / 0;",
)


def _know(monkeypatch: pytest.MonkeyPatch, *more: Migration) -> None:
    """As if this library were a later version, which has these migrations too."""
    known = (*migrate.migrations(), *more)
    monkeypatch.setattr(migrate, "migrations", lambda: known)


def test_an_older_schema_is_refused_and_migrated(
    fresh: str, look: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate.run_sync(fresh, "headway")
    _know(monkeypatch, _LATER)
    assert f"is at version {_NEXT - 1} and this library needs {_NEXT}" in _refusal(look)
    assert "run `headway migrate`" in _refusal(look)
    assert migrate.run_sync(fresh, "headway") == [_LATER.name]
    migrate.verify_sync(look, "headway")


def test_a_newer_schema_is_refused(fresh: str, look: psycopg.Connection[Any]) -> None:
    migrate.run_sync(fresh, "headway")
    look.execute("insert into headway.migration values (999, '0999_future', 'x', 999)")
    before = contents(look, "headway")
    assert "version 999, newer than this library" in _refusal(look)
    assert "upgrade the headway package" in _refusal(look)
    with pytest.raises(SchemaMismatch, match="upgrade the headway package"):
        migrate.run_sync(fresh, "headway")
    assert contents(look, "headway") == before


def test_g13_a_newer_schema_that_suits_this_library_is_left_as_it_is(
    fresh: str, look: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions later, of which only the first says whom it suits; migrating undoes nothing."""
    text = f"-- Suits libraries from version {_NEXT - 1} on.\ncreate table {{schema}}.later ();"
    later = Migration(_NEXT, f"{_NEXT:04d}_later", text)
    with monkeypatch.context() as patch:
        _know(patch, later)
        assert later.name in migrate.run_sync(fresh, "headway")
        look.execute("update headway.definition set checksum = 'newer' where name = '2_views'")
    before = contents(look, "headway")
    migrate.verify_sync(look, "headway")
    assert migrate.run_sync(fresh, "headway") == []
    assert (contents(look, "headway"), _defined(look)["2_views"]) == (before, "newer")
    with monkeypatch.context() as patch:
        _know(patch, later, Migration(_NEXT + 1, f"{_NEXT + 1:04d}_last", "select 1;"))
        migrate.run_sync(fresh, "headway")
    assert f"version {_NEXT + 1}, newer than this library" in _refusal(look)


def test_a_migration_that_was_applied_with_other_contents_is_refused(
    fresh: str, look: psycopg.Connection[Any]
) -> None:
    migrate.run_sync(fresh, "headway")
    look.execute("update headway.migration set checksum = 'another' where version = 1")
    with pytest.raises(SchemaMismatch, match=r"0001_initial .* other contents"):
        migrate.run_sync(fresh, "headway")


def test_a_failing_migration_leaves_nothing_behind(
    fresh: str, look: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = outside(look)
    with monkeypatch.context() as patch:
        _know(patch, _LATER, _BROKEN)
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate.run_sync(fresh, "headway")
    assert outside(look) == before, "not even the schema"
    assert migrate.run_sync(fresh, "headway") == _ALL
    kept = contents(look, "headway")
    _know(monkeypatch, _LATER, _BROKEN)
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.run_sync(fresh, "headway")
    assert contents(look, "headway") == kept, "not even the migration before the broken one"


def test_functions_are_made_anew_when_their_text_has_changed(
    fresh: str, look: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate.run_sync(fresh, "headway")
    before = dict(_writers(look))
    body = dict(migrate.functions())["2_views"].replace("'ready'", "'set'", 1)
    known = tuple((name, body if name == "2_views" else b) for name, b in migrate.functions())
    monkeypatch.setattr(migrate, "functions", lambda: known)
    assert migrate.run_sync(fresh, "headway") == ["2_views"]
    assert look.execute("""select headway.label('r')""").fetchone() == ("set",)
    assert _defined(look)["2_views"] == migrate.checksum(body)
    after = dict(_writers(look))
    rewritten = {name for name in before if before[name] != after[name]}
    assert {"headway.jobs", "headway.queues", '"2_views"'.strip('"')} <= rewritten
    # Rights are granted again, so rows of pg_proc may be new. The ledger has what was defined.
    assert not rewritten & {*_ALL} - {"2_views"}
    assert migrate.run_sync(fresh, "headway") == []


def test_a_changed_function_keeps_the_rights_it_had(
    fresh: str, look: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing inside the schema is left to PUBLIC, also of a function that is new."""
    migrate.run_sync(fresh, "headway")
    new = "create function {schema}.late() returns integer language sql as 'select 1'"
    known = (*migrate.functions(), ("99_late", new))
    monkeypatch.setattr(migrate, "functions", lambda: known)
    assert migrate.run_sync(fresh, "headway") == ["99_late"]
    query = "select count(*) from pg_proc p, aclexplode(p.proacl) a where p.proname = %s and grantee = 0"
    assert look.execute(query, ["late"]).fetchone() == (0,)
    assert look.execute(query, ["enqueue"]).fetchone() == (0,)


def test_versions_are_numbered_without_gaps() -> None:
    versions = [migration.version for migration in migrate.migrations()]
    assert versions == list(range(1, len(versions) + 1))
    assert len({migration.checksum for migration in migrate.migrations()}) == len(versions)
