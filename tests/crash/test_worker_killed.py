"""SIGKILL: what a dead worker held is given to another, in isolation, and costs no attempt."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.count import (
    assert_crashes_are_on_record,
    assert_each_finished_once,
    finished,
    finished_by,
    held_by,
    told,
    unfinished,
)
from tests.support import DEADLINE, eventually

JOBS = 10_000


@pytest.mark.slow
async def test_g3_no_job_of_ten_thousand_is_lost_or_doubled_when_workers_are_killed(
    app: Headway, db: psycopg.Connection[Any], worker
) -> None:
    jobs = await app.tasks["pause"].enqueue_many({"n": n, "seconds": 0.03} for n in range(JOBS))
    worker(concurrency=40)
    for victim in [worker(concurrency=40) for _ in range(4)]:
        await eventually(lambda v=victim: finished_by(db, v.pid) and held_by(db, v.pid))
        victim.kill()
    assert finished(db) < JOBS, "they were to be killed in the middle"

    # Their jobs run in isolation, and each of those processes imports the app first.
    await eventually(lambda: unfinished(db) == 0, within=3 * DEADLINE)
    assert_each_finished_once(db, jobs)
    assert assert_crashes_are_on_record(db) >= 1
    results = db.execute("select result::int from archive order by id").fetchall()
    assert results == [(n,) for n in range(JOBS)]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "kill"])
async def test_g6_a_job_that_kills_its_process_fails_and_the_others_finish(
    app: Headway, db: psycopg.Connection[Any], worker, how: str
) -> None:
    """G6, and G7: the failed job keeps its input and an error for every crash, and can be retried.
    After the first crash it runs in a process of its own, and kills no other worker."""
    poison = await app.tasks["die"].enqueue(how)
    others = await app.tasks["pause"].enqueue_many({"n": n} for n in range(500))

    crashes = 0
    while unfinished(db):
        running = worker(lease="2s")
        await eventually(
            lambda w=running: w.process.poll() is not None or unfinished(db) == 0, within=DEADLINE
        )
        crashes += running.process.poll() is not None
    assert crashes == 1
    running.send(signal.SIGTERM)
    assert running.wait() == 0

    status = await poison.status()
    assert (status.state, status.attempt, status.input) == ("failed", 1, {"how": how})
    assert status.error is not None
    assert status.error["type"] == "ProcessDied"
    attempts = await poison.attempts()
    assert [(a.attempt, a.error["type"]) for a in attempts] == [
        (1, "WorkerLost"),
        (1, "ProcessDied"),
        (1, "ProcessDied"),
    ]
    assert len({a.worker for a in attempts}) == 2

    spent = db.execute("select claim from archive where id = %s", (poison.id,)).fetchone()
    assert await poison.retry()
    again = db.execute("select claim, attempt, label(state) from job").fetchone()
    assert spent is not None
    assert again == (spent[0], 0, "ready")
    assert await poison.cancel()
    db.execute("delete from archive where id = %s", (poison.id,))
    assert_each_finished_once(db, others)


@pytest.mark.slow
async def test_g2_a_job_in_a_process_ends_with_the_worker_that_was_killed(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path
) -> None:
    """Only the worker is killed; its child must be gone before another may run the job."""
    killed = worker()
    job = await app.tasks["alone"].enqueue("g")
    await eventually(lambda: told(seen, "began") == 1)
    killed.send(signal.SIGKILL)
    worker()
    await eventually(lambda: told(seen, "began") == 2)
    (gates / "g-2").touch()
    assert await job.result(timeout="60s") > 0
    assert_each_finished_once(seen, [job])
    assert assert_crashes_are_on_record(seen) == 1
