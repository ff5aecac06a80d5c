"""Jobs claimed before a slot is free: how many, and what becomes of those that wait too long."""

import asyncio
from typing import Any

import psycopg
import pytest

from headway import Headway, Limit
from headway.engine.running.ahead import Ahead
from headway.engine.worker import Worker
from tests.support import DEADLINE, eventually


@pytest.mark.parametrize(
    ("turn", "handler", "room"),
    [
        (0.002, 0.001, 40),
        (0.001, 0.001, 20),
        (0.004, 0.0, 80),  # never more than eight for each slot
        (0.004, 0.008, 10),
        (0.004, 0.02, 0),
        (0.004, 10.0, 0),
    ],
)
async def test_enough_jobs_wait_for_the_slots_while_the_next_claim_is_under_way(
    monkeypatch: pytest.MonkeyPatch, turn: float, handler: float, room: int
) -> None:
    now = 100.0
    monkeypatch.setattr("headway.engine.running.ahead.monotonic", lambda: now)
    ahead = Ahead(10, lambda _: None)
    for _ in range(19):
        ahead.turn_took(turn)
        ahead.handler_ended(now - handler)
    assert ahead.room == 0, "too few handlers have ended"
    for _ in range(200):
        ahead.turn_took(turn)
        ahead.handler_ended(now - handler)
    assert ahead.room == pytest.approx(room, abs=1)
    now += 0.1
    assert ahead.room == 0, "no handler ends any more"


STATES = "select state::text, count(*)::int, max(attempt)::int from job group by 1 order by 1"


async def _after_short_jobs(
    hw: Headway, start: Any, release: asyncio.Event, **options: Any
) -> Worker:
    """Return a worker with two slots that claims ahead. Its slots are held by jobs that wait now."""
    entered = asyncio.Event()

    @hw.task
    async def short() -> None:
        pass

    @hw.task(**options)
    async def long() -> None:
        entered.set()
        await release.wait()

    await short.enqueue_many([{}] * 300)
    worker: Worker = start(concurrency=2).worker
    await eventually(lambda: worker.report.total == 300)
    await long.enqueue_many([{}] * 20)
    await asyncio.wait_for(entered.wait(), DEADLINE)
    return worker


async def test_jobs_that_wait_for_a_slot_too_long_go_back_to_their_queue(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    release = asyncio.Event()
    worker = await _after_short_jobs(hw, start, release)
    assert len(worker._running.executor.running) > 2, "some wait"
    await eventually(lambda: db.execute(STATES).fetchall() == [("r", 18, 0), ("x", 2, 1)])
    release.set()
    await eventually(lambda: worker.report.settled["succeed"] == 320)
    assert worker.report.lost == 0


async def test_a_drain_gives_back_what_waits_for_a_slot(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    release = asyncio.Event()
    worker = await _after_short_jobs(hw, start, release)
    assert len(worker._running.executor.running) > 2, "some wait"
    worker.stop()
    await eventually(lambda: db.execute(STATES).fetchall() == [("r", 18, 0), ("x", 2, 1)])
    release.set()
    await eventually(lambda: db.execute(STATES).fetchall() == [("r", 18, 0)])


async def test_nothing_is_claimed_ahead_under_a_limit(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """It would count as running, and keep others from a token of the rate."""
    release, most = asyncio.Event(), 0
    worker = await _after_short_jobs(hw, start, release, limit=Limit(concurrency=10))
    executor = worker._running.executor
    for _ in range(20):
        most = max(most, len(executor.running))
        await asyncio.sleep(0)
    assert most <= 2
    release.set()
    await eventually(lambda: worker.report.settled["succeed"] == 320)
