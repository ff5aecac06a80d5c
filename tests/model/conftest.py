"""A schema for the model. Comparisons outside of test files also show their differences."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.store import migrate

pytest.register_assert_rewrite(
    "tests.model.pair", "tests.model.machine", "tests.model.controlled", "tests.model.troubled"
)

from tests.model.machine import Heard  # noqa: E402
from tests.store.store import Store  # noqa: E402


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    """A schema for all examples; each begins by emptying it."""
    migrate.run_sync(dsn, "hw_model")
    store = Store(dsn, "hw_model")
    yield store
    store.eyes.execute("drop schema hw_model cascade")
    store.close()


@pytest.fixture
def heard(store: Store) -> Iterator[Heard]:
    with store.listening() as heard:
        yield heard
