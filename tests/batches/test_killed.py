"""SIGKILL in the middle of a batch: none of its jobs is lost, none is settled twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.batches.tasks import register
from tests.crash.count import assert_crashes_are_on_record, assert_each_finished_once, unfinished
from tests.fixtures.processes import WorkerProcess
from tests.support import eventually


@pytest.mark.slow
async def test_g3_every_job_of_a_batch_whose_worker_was_killed_ends_once(
    hw: Headway, db: psycopg.Connection[Any], spawn_worker: Callable[..., WorkerProcess]
) -> None:
    task = register(hw).tasks["double"]
    jobs = await task.enqueue_many({"numbers": number} for number in range(25))
    killed = spawn_worker("tests.batches.tasks:hw", "--lease", "2s", STUCK="yes")
    called = "select count(*) from jobs where progress->>'message' = '10 in one call'"
    await eventually(lambda: db.execute(called).fetchone() == (10,))
    killed.kill()

    spawn_worker("tests.batches.tasks:hw", "--lease", "2s")
    await eventually(lambda: unfinished(db) == 0)
    assert_each_finished_once(db, jobs)
    assert assert_crashes_are_on_record(db) == 10, "an attempt of each that was in the call"
    assert [await job.result() for job in jobs] == [number * 2 for number in range(25)]
