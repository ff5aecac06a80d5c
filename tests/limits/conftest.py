"""The record of starts and ends, and a hand that does everything by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.limits.record import Record
from tests.sql.hand import Hand


@pytest.fixture
def record(db: psycopg.Connection[Any], schema: str) -> Record:
    return Record(db, schema)


@pytest.fixture
def hand(dsn: str, schema: str) -> Iterator[Hand]:
    hand = Hand(dsn, schema)
    yield hand
    hand.close()
