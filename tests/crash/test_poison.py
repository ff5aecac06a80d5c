"""Jobs that cannot be run or settled, between jobs that can (G8)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.count import assert_each_finished_once
from tests.support import eventually


@pytest.mark.slow
async def test_g8_poison_blocks_nobody(
    app: Headway, db: psycopg.Connection[Any], dsn: str, schema: str, worker
) -> None:
    """A payload that does not fit, a result that cannot be stored, a task that nobody here knows."""
    other = Headway(dsn, schema=schema)  # as a newer version of the app would be

    @other.task(name="echo")
    async def renamed(text: str) -> None: ...

    @other.task
    async def not_yet_deployed() -> None: ...

    good, misfits, unstorable, unknown = [], [], [], []
    for n in range(50):
        misfits.append(await renamed.enqueue("n"))
        unstorable.append(await app.tasks["unstorable"].enqueue(n))
        unknown.append(await not_yet_deployed.enqueue())
        good += await app.tasks["echo"].enqueue_many({"n": n} for n in range(10))
    worker(concurrency=100)
    await eventually(lambda: db.execute("select count(*) from job").fetchone() == (len(unknown),))
    kinds = Counter(
        db.execute(
            "select task, label(state), attempt, error->>'type', input <> '{}' from archive"
        ).fetchall()
    )
    assert kinds == {
        ("echo", "succeeded", 1, None, True): 500,
        ("echo", "failed", 1, "InvalidInput", True): 50,
        ("unstorable", "failed", 1, "InvalidResult", True): 50,
    }
    assert db.execute("select distinct task, label(state), attempt, claim from job").fetchall() == [
        ("not_yet_deployed", "ready", 0, 0)
    ]
    db.execute("delete from job")
    db.execute("delete from archive where state <> 'd'")
    assert_each_finished_once(db, good)
    await other.close()
