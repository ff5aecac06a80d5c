"""A table in which handlers say when they begin and end, by the database's clock."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.keys.told import Told


@pytest.fixture
def told(db: psycopg.Connection[Any], dsn: str) -> Told:
    """In a schema of its own: that of Headway is left as it is."""
    db.execute("create schema if not exists telling")
    db.execute("drop table if exists telling.told")
    place = "place bigint generated always as identity"
    db.execute(f"create table telling.told ({place}, key text, n integer, what text)")
    return Told(db, dsn)
