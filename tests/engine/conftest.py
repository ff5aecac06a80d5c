"""Fixtures of the tests of isolation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.engine.bench import Bench


@pytest.fixture
async def bench(hw: Headway) -> AsyncIterator[Bench]:
    bench = Bench(hw)
    await bench.open()
    yield bench
    await bench.close()


@pytest.fixture
def effects(db: psycopg.Connection[Any]) -> Callable[[], list[str]]:
    """A table for the effects of handlers; the notes in it."""
    db.execute("drop schema if exists effects cascade")
    db.execute("create schema effects")
    db.execute("create table effects.effect (job_id uuid, note text)")

    def notes() -> list[str]:
        return [row[0] for row in db.execute("select note from effects.effect order by note")]

    return notes
