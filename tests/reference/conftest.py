"""A `Store` on each test's schema. Workers come from the fixtures of the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.store import Store


@pytest.fixture
def store(dsn: str, schema: str) -> Iterator[Store]:
    """Statements on this test's schema, at a moment of the test's choosing."""
    store = Store(dsn, schema)
    yield store
    store.close()


@pytest.fixture
def worker(store: Store) -> int:
    """A live worker with an ordinary lease."""
    return store.register()
