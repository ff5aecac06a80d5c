"""A handler that blocks the event loop is named: in the log, in figures, in its error (B7)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import psycopg
import pytest

from headway import Batch, Headway, Job, Retry
from tests.health.ask import Reply, ask_blocking
from tests.support import DEADLINE, Running, eventually

ONCE = Retry(max_attempts=1)


@pytest.fixture
def blocked(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    """Return the lines of the log about a blocked loop, so far."""
    caplog.set_level(logging.INFO, "headway.worker")
    return lambda: [r for r in caplog.records if hasattr(r, "blocked_for")]


def _block_until(fact: Callable[[], object]) -> None:
    """Holds the loop up, as no async handler should."""
    deadline = time.monotonic() + DEADLINE
    while not fact() and time.monotonic() < deadline:
        time.sleep(0.02)  # this line is blamed


async def test_b7_the_log_names_task_job_and_line(
    hw: Headway, start: Callable[..., Running], blocked
) -> None:
    @hw.task
    async def hog() -> None:
        _block_until(blocked)

    start()
    job = await hog.enqueue()
    await job.result(timeout=DEADLINE)
    first, *_ = blocked()
    assert (first.levelname, first.task, first.job_id) == ("ERROR", "hog", str(job.id))
    words = first.getMessage()
    assert f"by task hog, job {job.id}, at " in words
    assert "test_blocked_loop.py:" in words
    assert "`time.sleep(0.02)  # this line is blamed`" in words
    await eventually(lambda: len(blocked()) >= 2)
    assert blocked()[-1].levelname == "WARNING", "it says when it is over"
    assert blocked()[-1].job_id == str(job.id)


async def test_b7_a_batch_that_blocks_is_named_by_its_task(hw, start, blocked) -> None:
    @hw.task(batch=Batch(size=2, wait="1ms"))
    async def hogs(items: list[int]) -> None:
        _block_until(blocked)

    start()
    jobs = [await hogs.enqueue(n) for n in range(2)]
    for job in jobs:
        await job.result(timeout=DEADLINE)
    assert "by task hogs, at " in blocked()[0].getMessage()


async def test_b7_the_error_of_an_attempt_names_the_job_that_blocked_the_loop(
    hw, start, blocked
) -> None:
    @hw.task(retry=ONCE, timeout="100ms")
    async def victim() -> None:
        await asyncio.sleep(3600)

    @hw.task(retry=ONCE)
    async def breaks() -> None:
        await eventually(blocked)
        raise ValueError("as always")

    @hw.task(retry=ONCE, timeout="100ms")
    async def hog() -> None:
        _block_until(blocked)
        await asyncio.sleep(3600)

    # Claimed together and started in this order: the last one finds the others at their first await.
    jobs = [await task.enqueue() for task in (victim, breaks, hog)]
    start()
    hurt, broken, guilty = [await _error(job) for job in jobs]
    assert (guilty["type"], hurt["type"]) == ("TimedOut", "TimedOut")
    assert "; it blocked the event loop for " in guilty["message"]
    assert "test_blocked_loop.py:" in guilty["message"]
    assert "; the event loop was blocked for " in hurt["message"]
    assert f"by task hog, job {jobs[2].id}" in hurt["message"]
    assert (broken["type"], broken["message"]) == ("ValueError", "as always"), (
        "errors are grouped by it"
    )
    assert f"by task hog, job {jobs[2].id}" in broken["traceback"]


async def _error(job: Job[None]) -> dict[str, str]:
    async def failed() -> dict[str, str] | None:
        status = await job.status()
        return status.error if status.state == "failed" else None

    return await eventually(failed)


async def test_b7_the_worker_s_row_says_it_while_the_loop_is_still_blocked(
    hw, dsn, schema, start
) -> None:
    found: list[str] = []

    @hw.task
    async def hog() -> None:
        with psycopg.connect(dsn, autocommit=True, options=f"-csearch_path={schema}") as conn:
            said = "select trouble from worker where trouble is not null"
            _block_until(lambda: found.extend(row[0] for row in conn.execute(said)) or found)

    running = start()
    job = await hog.enqueue()
    await job.result(timeout=DEADLINE)
    assert found[0].startswith(f"its event loop was blocked by task hog, job {job.id}, at ")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute(f"set search_path = {schema}")

        async def cleared() -> bool:
            said = await conn.execute(
                "select trouble from worker where id = %s", [running.worker.id]
            )
            return await said.fetchone() == (None,)

        await eventually(cleared)


async def test_b7_the_endpoint_names_it_without_the_code(hw, observed, blocked) -> None:
    replies: list[Reply] = []
    places: list[int] = []

    @hw.task
    async def hog() -> None:
        _block_until(blocked)
        replies.extend(ask_blocking(places[0], path) for path in ("/livez", "/readyz", "/metrics"))

    _, where = observed()
    places.append(await eventually(where))
    job = await hog.enqueue()
    await job.result(timeout=DEADLINE)
    livez, readyz, metrics = replies
    for reply in (livez, readyz):
        status, words = reply.finding("event loop")
        assert status == "note"
        assert f"it is blocked by task hog, job {job.id}, at " in words
        assert "time.sleep" not in words, "code may have secrets in it"
    assert livez.status == 200
    assert metrics.figures()["headway_loop_blocks_total"] == 1
    assert metrics.figures()["headway_loop_blocked_seconds_total"] > 0
