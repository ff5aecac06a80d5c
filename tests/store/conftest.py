"""One migrated schema for all tests of statements, emptied before each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway.store import migrate
from tests.store.store import Store

_numbers = itertools.count()

Make = Callable[..., str]
"""Makes a database: see `database`."""


@pytest.fixture(scope="session")
def store_schema(dsn: str) -> str:
    migrate.run_sync(dsn, "hw_store")
    return "hw_store"


@pytest.fixture(scope="session")
def _store(dsn: str, store_schema: str) -> Iterator[Store]:
    store = Store(dsn, store_schema)
    yield store
    store.close()


@pytest.fixture
def store(_store: Store) -> Store:
    """A `Store` with an empty schema, at noon. Tests that change the schema itself take `own_store`."""
    _store.clear()
    return _store


@pytest.fixture
def own_store(dsn: str, schema: str) -> Iterator[Store]:
    """The same, on a schema of this test's own."""
    store = Store(dsn, schema)
    yield store
    store.close()


@pytest.fixture
def worker(store: Store) -> int:
    """A live worker with an ordinary lease."""
    return store.register()


@pytest.fixture
def fresh(server_dsn: str) -> Iterator[str]:
    """The DSN of an empty database."""
    name = sql.Identifier(f"headway_fresh_{os.getpid()}_{next(_numbers)}")
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        conn.execute(sql.SQL("create database {}").format(name))
        yield make_conninfo(server_dsn, dbname=name.as_string().strip('"'))
        conn.execute(sql.SQL("drop database {} with (force)").format(name))


@pytest.fixture
def look(fresh: str) -> Iterator[psycopg.Connection[Any]]:
    """A plain connection to that database."""
    with psycopg.connect(fresh, autocommit=True) as conn:
        yield conn


@pytest.fixture
def database(dsn: str) -> Iterator[Make]:
    """Gives databases of their own, with a schema in each that is not to be empty."""
    made: list[str] = []

    def make(
        options: str = "", *, settings: dict[str, str] | None = None, empty: bool = False
    ) -> str:
        name = f"hw_environment_{os.getpid()}_{len(made)}"
        made.append(name)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(f"create database {name} template template0 {options}")  # type: ignore[arg-type]
            for setting, value in (settings or {}).items():
                conn.execute(f"alter database {name} set {setting} = {value}")  # type: ignore[arg-type]
        own = make_conninfo(dsn, dbname=name)
        if not empty:
            migrate.run_sync(own, "headway")
        return own

    yield make
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name in made:
            query = sql.SQL("drop database {} with (force)")
            conn.execute(query.format(sql.Identifier(name)))
