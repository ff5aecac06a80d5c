"""A hand that does everything by SQL, on the schema of the test's app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sql.hand import Hand


@pytest.fixture
def hand(dsn: str, schema: str) -> Iterator[Hand]:
    hand = Hand(dsn, schema)
    yield hand
    hand.close()
