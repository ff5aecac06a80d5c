"""Machines whose wall clocks are hours off: the database's clock decides (G10)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.count import assert_each_finished_once, told, unfinished, worker_ids
from tests.support import eventually

_ROOT = Path(__file__).parents[2]
_HOURS = pytest.mark.parametrize("skew", ["25200", "-25200"], ids=["ahead", "behind"])


@pytest.mark.slow
@_HOURS
async def test_g10_a_wrong_wall_clock_changes_nothing_for_a_worker(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path, skew: str
) -> None:
    wrong = worker(CLOCK_SKEW=skew)
    its_time = await (await app.tasks["clock"].enqueue()).result(timeout="60s")
    assert abs(its_time - time.time() - float(skew)) < 3600, "its clock was to be wrong"

    # A job is due by the database's clock: not hours early, not hours late.
    far = await app.tasks["witness"].using(delay="6h").enqueue()
    soon = await app.tasks["witness"].using(delay="1s").enqueue()
    assert await soon.result(timeout="60s") == wrong.pid
    early = "select count(*) from archive where started_at < run_at or finished_at < started_at"
    assert seen.execute(early).fetchone() == (0,)
    assert (await far.status()).state == "scheduled"
    assert await far.cancel()
    retried = await app.tasks["flaky"].enqueue(1)
    assert await retried.result(timeout="60s") == 1

    # Its lease holds through several heartbeats, next to a worker whose clock is right.
    held = await app.tasks["hold"].enqueue("g")
    await eventually(lambda: told(seen, "began") == 2)
    right = worker()
    await eventually(
        lambda: seen.execute(
            """select 1 from worker where id = any (%s)
               and seen_at > (select max(at) from seen) + interval '4 s'""",
            (worker_ids(seen, right.pid),),
        ).fetchone(),
    )
    for attempt in (1, 2):
        (gates / f"g-{attempt}").touch()
    assert await held.result(timeout="60s") == wrong.pid
    assert (await held.status()).attempt == 1
    assert len(worker_ids(seen, wrong.pid)) == len(worker_ids(seen, right.pid)) == 1
    assert unfinished(seen) == 0


@pytest.mark.slow
async def test_g10_a_worker_whose_clock_is_wrong_is_rescued_and_rescues(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path
) -> None:
    ahead = worker(CLOCK_SKEW="25200")
    job = await app.tasks["hold"].enqueue("g")
    await eventually(lambda: told(seen, "began", ahead.pid) == 1)
    ahead.send(signal.SIGKILL)
    behind = worker(CLOCK_SKEW="-25200")
    await eventually(lambda: told(seen, "began", behind.pid) == 1)
    (gates / "g-2").touch()
    assert await job.result(timeout="60s") == behind.pid
    assert_each_finished_once(seen, [job])


@_HOURS
async def test_g10_a_wrong_wall_clock_changes_nothing_for_a_producer(
    app: Headway, db: psycopg.Connection[Any], dsn: str, schema: str, skew: str
) -> None:
    enqueue = "from tests.crash.tasks import hw; hw.tasks['echo'].using(delay='2h').enqueue_sync(1)"
    place = {"HEADWAY_DATABASE_URL": dsn, "TEST_SCHEMA": schema, "PYTHONPATH": str(_ROOT)}
    subprocess.run(
        [sys.executable, "-c", enqueue], env=os.environ | place | {"CLOCK_SKEW": skew}, check=True
    )
    row = db.execute("select run_at - created_at, now() - created_at from job").fetchone()
    assert row is not None
    assert row[0] == timedelta(hours=2)
    assert row[1] < timedelta(hours=1)
