"""The record of starts and ends."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.limits.record import Record


@pytest.fixture
def record(db: psycopg.Connection[Any], schema: str) -> Record:
    return Record(db, schema)
