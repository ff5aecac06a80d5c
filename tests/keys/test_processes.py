"""Keys across worker processes, and when one of them is killed while it holds room."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import JobFailed
from tests.keys.tasks import register
from tests.keys.told import Told
from tests.support import eventually

pytestmark = pytest.mark.slow
APP = "tests.keys.tasks:hw"
WITHIN = 60.0


async def test_no_more_than_the_limit_run_at_once_in_several_processes(
    hw: Headway, told: Told, spawn_worker, db: psycopg.Connection[Any]
) -> None:
    register(hw)
    for _ in range(3):
        spawn_worker(APP, "--concurrency", "10")
    serving = "select count(*) from worker where expires_at > now()"
    await eventually(lambda: db.execute(serving).fetchone() == (3,), within=WITHIN)
    jobs = await hw.tasks["work"].enqueue_many(
        {"key": key, "n": n} for n in range(60) for key in "ab"
    )
    for job in jobs:
        await job.result(timeout=WITHIN)
    assert all(most <= 2 for most in told.most_at_once().values())
    assert sorted(told.began("a")) == sorted(told.began("b")) == list(range(60))


async def test_a_holder_that_is_killed_frees_its_room_when_its_lease_ends(
    hw: Headway, told: Told, spawn_worker, db: psycopg.Connection[Any]
) -> None:
    """One runs again, before all others of its ordered line; one may not crash again and fails."""
    register(hw)
    killed = spawn_worker(APP)
    again = await hw.tasks["stand"].enqueue_many({"key": "again", "n": n} for n in range(4))
    spent = await hw.tasks["stand_once"].enqueue_many({"key": "spent", "n": n} for n in range(4))
    await eventually(lambda: sorted(told.began()) == [0, 0], within=WITHIN)
    killed.kill()
    for leased in ("worker", "leader"):
        db.execute(f"update {leased} set expires_at = now()")
    spawn_worker(APP)
    for job in [*again, *spent[1:]]:
        await job.result(timeout=WITHIN)
    with pytest.raises(JobFailed, match="WorkerLost"):
        await spent[0].result(timeout=WITHIN)
    assert told.began("again") == [0, 0, 1, 2, 3]
    assert told.began("spent") == [0, 1, 2, 3]
