"""A schema for statements in every order, and sessions to run them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.store import migrate
from tests.interleave.driver import Every
from tests.store.store import Store


@pytest.fixture(scope="session")
def _store(dsn: str) -> Iterator[Store]:
    migrate.run_sync(dsn, "hw_interleave")
    store = Store(dsn, "hw_interleave")
    yield store
    store.close()


@pytest.fixture
def store(_store: Store) -> Store:
    _store.clear()
    return _store


@pytest.fixture
def every(store: Store) -> Iterator[Every]:
    every = Every(store)
    yield every
    every.close()
