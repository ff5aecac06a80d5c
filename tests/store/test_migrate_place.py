"""migrate.py: a schema that is somebody else's is refused, with names and what to do (S30, S33)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headway.errors import SchemaMismatch
from headway.store import migrate
from tests.store.catalog import contents


@pytest.fixture
def stranger(look: psycopg.Connection[Any]) -> Iterator[str]:
    """A role without rights, gone with what it owns after the test."""
    name = f"hw_stranger_{os.getpid()}"
    look.execute(f"create role {name}")  # type: ignore[arg-type]
    yield name
    look.execute(f"drop owned by {name} cascade")  # type: ignore[arg-type]
    look.execute(f"drop role {name}")  # type: ignore[arg-type]


def _refused(dsn: str) -> str:
    with pytest.raises(SchemaMismatch) as refused:
        migrate.run_sync(dsn, "headway")
    return str(refused.value)


def test_s30_a_schema_of_another_role_is_refused(
    fresh: str, look: psycopg.Connection[Any], stranger: str
) -> None:
    """Its owner could have put a trigger on our tables, which the migrator would run."""
    look.execute(f"create schema headway authorization {stranger}")  # type: ignore[arg-type]
    (user,) = look.execute("select current_user").fetchone() or ("",)
    assert f"schema headway belongs to {stranger}, and this is {user}" in _refused(fresh)
    assert f"ALTER SCHEMA headway OWNER TO {user}" in _refused(fresh)
    assert not any(contents(look, "headway").values())
    look.execute(f"alter schema headway owner to {user}")  # type: ignore[arg-type]
    assert migrate.run_sync(fresh, "headway")


def test_s30_a_ledger_of_another_role_is_refused(
    fresh: str, look: psycopg.Connection[Any], stranger: str
) -> None:
    migrate.run_sync(fresh, "headway")
    look.execute(f"alter table headway.migration owner to {stranger}")  # type: ignore[arg-type]
    assert f"table headway.migration belongs to {stranger}" in _refused(fresh)
    assert "ALTER TABLE headway.migration OWNER TO" in _refused(fresh)


def test_s30_the_schema_of_a_role_that_one_is_a_member_of_is_taken(
    fresh: str, look: psycopg.Connection[Any], stranger: str
) -> None:
    look.execute(f"create schema headway authorization {stranger}")  # type: ignore[arg-type]
    login = f"{stranger}_login"
    look.execute(f"create role {login} login password 'x' in role {stranger}")  # type: ignore[arg-type]
    try:
        assert migrate.run_sync(make_conninfo(fresh, user=login, password="x"), "headway")
    finally:
        look.execute(f"drop owned by {login} cascade")  # type: ignore[arg-type]
        look.execute(f"drop role {login}")  # type: ignore[arg-type]


def test_s30_a_schema_with_tables_of_something_else_is_refused(
    fresh: str, look: psycopg.Connection[Any]
) -> None:
    look.execute(
        "create schema headway; create table headway.bus (id int); create view headway.a as select 1"
    )
    before = contents(look, "headway")
    assert "schema headway has tables that are not Headway's (a, bus); choose another" in _refused(
        fresh
    )
    assert contents(look, "headway") == before


def test_s33_a_foreign_table_called_migration_is_named(
    fresh: str, look: psycopg.Connection[Any]
) -> None:
    look.execute("create schema headway; create table headway.migration (id int, name text)")
    with pytest.raises(SchemaMismatch) as met:
        migrate.verify_sync(look, "headway")
    for said in (_refused(fresh), str(met.value)):
        assert "table headway.migration is not Headway's" in said
        assert "choose another schema" in said
        assert "run `headway migrate`" not in said


def test_tables_that_others_add_later_are_left_alone(
    fresh: str, look: psycopg.Connection[Any]
) -> None:
    migrate.run_sync(fresh, "headway")
    look.execute("create table headway.mine (id int)")
    assert migrate.run_sync(fresh, "headway") == []
