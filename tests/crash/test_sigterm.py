"""SIGTERM: running jobs finish, the others go back, and the process ends whatever the database does."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.count import (
    assert_each_finished_once,
    finished,
    finished_by,
    held_by,
    told,
    unfinished,
)
from tests.crash.proxy import Proxy, opening
from tests.support import eventually


def _lives(db: psycopg.Connection[Any]) -> list[Any]:
    return db.execute("select label(state), attempt, worker_id from job order by id").fetchall()


@pytest.mark.slow
async def test_g11_what_runs_finishes_and_what_has_not_started_goes_back(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path
) -> None:
    draining = worker(concurrency=3)
    jobs = [await app.tasks["hold"].enqueue("g") for _ in range(3)]
    await eventually(lambda: told(seen, "began") == 3)
    jobs += [await app.tasks["hold"].enqueue("g") for _ in range(4)]
    draining.send(signal.SIGTERM)
    await eventually(lambda: "draining" in draining.output())
    (gates / "g-1").touch()
    assert draining.wait() == 0
    assert finished_by(seen, draining.pid) == told(seen, "began") == 3
    assert _lives(seen) == [("ready", 0, None)] * 4
    assert seen.execute("select 1 from worker where expires_at > now()").fetchone() is None

    worker()
    await eventually(lambda: unfinished(seen) == 0)
    assert_each_finished_once(seen, jobs)


@pytest.mark.slow
async def test_g11_a_stop_under_full_load_costs_no_job_an_attempt(
    app: Headway, db: psycopg.Connection[Any], worker
) -> None:
    """Whatever was under way at that moment: a claim, a settling, jobs about to start."""
    jobs = await app.tasks["echo"].enqueue_many({"n": n} for n in range(30_000))
    for _ in range(3):
        stopped = worker(concurrency=200)
        done = finished(db)
        await eventually(lambda done=done: finished(db) > done)
        stopped.send(signal.SIGTERM)
        assert stopped.wait() == 0
        assert held_by(db, stopped.pid) == 0
    assert unfinished(db) > 0, "it was to be stopped in the middle"
    worker(concurrency=200)
    await eventually(lambda: unfinished(db) == 0)
    assert_each_finished_once(db, jobs)
    assert db.execute("select count(*) from attempt").fetchone() == (0,)
    assert db.execute("select count(*) from archive where attempt <> 1").fetchone() == (0,)


@pytest.mark.slow
async def test_g11_a_claim_answered_after_sigterm_goes_back_unstarted(
    app: Headway, seen: psycopg.Connection[Any], worker, proxy: Proxy, dsn: str, schema: str
) -> None:
    job = await app.tasks["hold"].enqueue("never")
    claim = proxy.hold_reply(opening("moves/claim_plain", schema))
    draining = worker(dsn=proxy.dsn, SIDE_DSN=dsn)
    await eventually(claim.answered.is_set)
    assert held_by(seen, draining.pid) == 1
    draining.send(signal.SIGTERM)
    await eventually(lambda: "draining" in draining.output())
    proxy.release(claim)
    assert draining.wait() == 0
    assert _lives(seen) == [("ready", 0, None)]
    assert told(seen, "began") == 0
    assert await job.cancel()


@pytest.mark.slow
async def test_g11_a_job_longer_than_the_grace_is_stopped_and_goes_back(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path
) -> None:
    draining = worker("--grace", "500ms")
    job = await app.tasks["hold"].enqueue("g")
    await eventually(lambda: told(seen, "began") == 1)
    draining.send(signal.SIGTERM)
    assert draining.wait() == 0
    assert told(seen, "stopped") == 1
    assert _lives(seen) == [("ready", 0, None)]

    (gates / "g-2").touch()
    other = worker()
    assert await job.result(timeout="60s") == other.pid
    assert_each_finished_once(seen, [job])
    assert seen.execute("select claim >> 32, attempt from archive").fetchall() == [(2, 1)]
    assert seen.execute("select count(*) from attempt").fetchone() == (0,)


@pytest.mark.slow
async def test_g11_a_thread_that_cannot_be_stopped_does_not_keep_the_process(
    app: Headway, seen: psycopg.Connection[Any], worker
) -> None:
    draining = worker("--grace", "500ms")
    await app.tasks["block"].enqueue(seconds=3600)
    await eventually(lambda: told(seen, "began") == 1)
    draining.send(signal.SIGTERM)
    assert draining.wait() == 0
    assert _lives(seen) == [("ready", 0, None)]


@pytest.mark.slow
@pytest.mark.parametrize("outage", ["refused", "black hole"])
async def test_sigterm_ends_the_process_while_the_database_is_down(
    app: Headway,
    seen: psycopg.Connection[Any],
    worker,
    gates: Path,
    proxy: Proxy,
    dsn: str,
    outage: str,
) -> None:
    """Within the grace and a little more; what it held is rescued when its lease has ended."""
    draining = worker("--grace", "500ms", dsn=proxy.dsn, SIDE_DSN=dsn)
    job = await app.tasks["hold"].enqueue("g")
    await eventually(lambda: told(seen, "began") == 1)
    if outage == "refused":
        proxy.refuse()
    else:
        proxy.black_hole()
    draining.send(signal.SIGTERM)
    assert draining.wait(60) == 0
    for attempt in (1, 2):
        (gates / f"g-{attempt}").touch()
    other = worker()
    assert await job.result(timeout="60s") == other.pid
    assert_each_finished_once(seen, [job])
