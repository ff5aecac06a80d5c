"""One migrated schema for all tests of statements, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.store import migrate
from tests.store.store import Store


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
    """A hand on an empty schema, at noon. Tests that change the schema itself take `own_store`."""
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
