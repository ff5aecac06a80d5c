from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway.store import migrate
from tests.cli.conftest import Command


@pytest.fixture
def fresh(dsn: str) -> Iterator[str]:
    """The name of a schema that is not there."""
    name = "hw_fresh"
    yield name
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))


def _names() -> list[str]:
    """Of all that is applied to a schema that is not there."""
    migrations = [migration.name for migration in migrate.migrations()]
    return migrations + [name for name, _ in migrate.functions()]


def test_migrate_says_what_it_applied_and_then_that_nothing_is_left(
    headway: Command, fresh: str
) -> None:
    names = _names()
    first = headway("migrate", "--schema", fresh).stdout
    assert [f"applied {name}" in first for name in names] == [True] * len(names)
    again = headway("migrate", "--schema", fresh).stdout
    assert again == f"schema {fresh} is at version {migrate.newest()}\n"


def test_migrate_answers_programs(headway_json: Callable[..., Any], fresh: str) -> None:
    names = _names()
    answer = headway_json("migrate", "--schema", fresh)
    assert answer == {"schema": fresh, "version": migrate.newest(), "applied": names}
    assert headway_json("migrate", "--schema", fresh)["applied"] == []


def test_sql_is_printed_and_nothing_is_touched(headway: Command, fresh: str) -> None:
    nowhere = "postgresql://localhost:1/nowhere"
    assert "create table" in headway("migrate", "--sql", "--schema", fresh, "--dsn", nowhere).stdout


def test_the_printed_sql_makes_a_schema_that_the_library_takes(
    headway: Command, dsn: str, fresh: str
) -> None:
    script = headway("migrate", "--sql", "--schema", fresh).stdout
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(script)
    assert headway("migrate", "--schema", fresh).stdout.startswith("schema hw_fresh is at")
    headway("job", "list", "--schema", fresh)
