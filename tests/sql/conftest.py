"""One migrated schema for all tests of the SQL surface, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.store import migrate
from tests.sql.hand import Hand


@pytest.fixture(scope="session")
def sql_schema(dsn: str) -> str:
    migrate.run_sync(dsn, "hw_sql")
    return "hw_sql"


@pytest.fixture(scope="session")
def _hand(dsn: str, sql_schema: str) -> Iterator[Hand]:
    hand = Hand(dsn, sql_schema)
    yield hand
    hand.close()


@pytest.fixture
def hand(_hand: Hand) -> Hand:
    """A connection on an empty schema where no worker lives."""
    _hand.clear()
    return _hand


@pytest.fixture
def other(dsn: str, sql_schema: str, hand: Hand) -> Iterator[Hand]:
    """A second connection on the same schema."""
    other = Hand(dsn, sql_schema)
    yield other
    other.close()
