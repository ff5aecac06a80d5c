"""`hw.queues.drain`: nothing more begins, and it says when nothing runs any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from headway import Headway
from headway.errors import ConfigError
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually


@pytest.fixture
def opened() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def hold(hw: Headway, opened: asyncio.Event):
    @hw.task(queue="mail")
    async def hold() -> None:
        await opened.wait()

    return hold


async def _running(hold, hand: Hand, start: Callable[..., Running], number: int = 2) -> None:
    """This many jobs run, and more wait."""
    start(queues={"mail": 1, "other": 1}, concurrency=number)
    await hold.enqueue_many([{}] * (number + 3))
    busy = "select count(*) from job where state = 'x'"
    await eventually(lambda: hand.value(busy) == number)


async def test_it_returns_when_what_runs_has_ended_and_the_rest_stays(
    hw: Headway, hold, hand: Hand, start, opened: asyncio.Event
) -> None:
    await _running(hold, hand, start)
    told: list[int] = []
    seen = asyncio.Event()

    def look(running: int) -> None:
        told.append(running)
        seen.set()

    draining = asyncio.ensure_future(
        hw.queues.drain("mail", reason="deploy", actor="ada", on_progress=look)
    )
    await asyncio.wait_for(seen.wait(), DEADLINE)
    assert told[0] == 2
    assert not draining.done()
    opened.set()
    assert await asyncio.wait_for(draining, DEADLINE) == 0
    assert told[-1] == 0
    found = hand.row("select ready, running, paused_by, pause_reason from queues")
    assert found == {"ready": 3, "running": 0, "paused_by": "ada", "pause_reason": "deploy"}
    assert await hw.queues.resume("mail")
    await eventually(lambda: hand.value("select count(*) from job") == 0)


async def test_when_the_time_is_up_it_says_how_many_still_run_and_the_queue_stays_paused(
    hw: Headway, hold, hand: Hand, start, opened: asyncio.Event
) -> None:
    await _running(hold, hand, start)
    assert await hw.queues.drain("mail", timeout="50ms") == 2
    assert await hw.queues.drain("mail", timeout=0) == 2
    assert hand.value("select paused_at is not null from queues where queue = 'mail'")
    opened.set()
    assert await hw.queues.drain("mail", timeout=DEADLINE) == 0
    assert hand.value("select ready from queues where queue = 'mail'") == 3


async def test_the_same_without_a_loop(
    hw: Headway, hold, hand: Hand, start, opened: asyncio.Event
) -> None:
    await _running(hold, hand, start)
    loop, seen = asyncio.get_running_loop(), threading.Event()

    def look(running: int) -> None:
        if running == 2 and not seen.is_set():
            seen.set()
            loop.call_soon_threadsafe(opened.set)

    left = await asyncio.to_thread(hw.queues.drain_sync, "mail", timeout=DEADLINE, on_progress=look)
    assert left == 0
    assert seen.is_set()


async def test_other_queues_go_on_and_are_not_waited_for(hw: Headway, start, hand: Hand) -> None:
    @hw.task(queue="other")
    async def hold(name: str) -> str:
        if name == "stays":
            await asyncio.Event().wait()
        return name

    start(queues={"mail": 1, "other": 1})
    await hold.enqueue("stays")
    await eventually(lambda: hand.value("select count(*) from job where state = 'x'") == 1)
    assert await hw.queues.drain("mail", timeout=DEADLINE) == 0
    assert await (await hold.enqueue("goes on")).result(timeout=DEADLINE) == "goes on"


async def test_what_consumers_in_sql_hold_counts_as_well(hw: Headway, hand: Hand) -> None:
    claimed = hand.held(queue="ext")
    assert await hw.queues.drain("ext", timeout=0) == 1
    assert hand.claim("ext") == []
    hand.settle("complete", claimed)
    assert await hw.queues.drain("ext", timeout=DEADLINE) == 0


async def test_a_job_that_is_tried_again_waits_for_the_end_of_the_pause(
    hw: Headway, start, hand: Hand, opened: asyncio.Event
) -> None:
    @hw.task(queue="mail")
    async def fail() -> None:
        await opened.wait()
        raise ValueError

    start(queues={"mail": 1})
    job = await fail.enqueue()
    await eventually(lambda: hand.state(job.id) == "running")
    draining = asyncio.ensure_future(hw.queues.drain("mail", timeout=DEADLINE))
    await eventually(lambda: hand.rows("select name from control where paused_at is not null"))
    opened.set()
    assert await draining == 0
    assert hand.state(job.id) in ("scheduled", "ready")
    assert hand.job(job.id)["attempt"] == 1


async def test_a_time_that_cannot_be_is_refused_before_anything_is_paused(
    hw: Headway, hand: Hand
) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        await hw.queues.drain("mail", timeout="soon")
    with pytest.raises(ConfigError, match="timeout"):
        hw.queues.drain_sync("mail", timeout=-1)
    assert hand.rows("select * from control") == []
