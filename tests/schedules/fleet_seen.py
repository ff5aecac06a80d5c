"""The jobs that a fleet made of schedules, read from the database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg

_MADE = """
select (headers->>'occurrence')::timestamptz from jobs
where headers->>'schedule' = %s order by headers->>'occurrence'"""


def made(db: psycopg.Connection[Any], name: str) -> list[datetime]:
    """The occurrences that there are jobs of, live or archived, as often as there are."""
    return [moment for (moment,) in db.execute(_MADE, (name,))]


def assert_every_one_once(
    db: psycopg.Connection[Any], name: str, interval: timedelta = timedelta(seconds=1)
) -> int:
    """From the first occurrence of an `@every` to the newest there is one job each; how many."""
    row = db.execute("select since from schedule where name = %s", (name,)).fetchone()
    assert row is not None
    found = made(db, name)
    assert found == [row[0] + n * interval for n in range(1, len(found) + 1)]
    return len(found)


def ended(db: psycopg.Connection[Any], name: str) -> int:
    """How many of its jobs have run: their unique keys are free again."""
    row = db.execute(
        "select count(*) from archive where headers->>'schedule' = %s", (name,)
    ).fetchone()
    assert row is not None
    return int(row[0])
