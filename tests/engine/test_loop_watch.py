"""When the watch over the event loop blames somebody, and when not (B7)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headway.engine.health.loop_block import CodeLine, LoopBlock
from headway.engine.health.loop_watch import LoopWatch


@pytest.fixture
async def watch() -> LoopWatch:
    """A watch that checks when the test calls it."""
    watch = LoopWatch(list, lease=30.0, note=lambda text: None)
    watch._loop = asyncio.get_running_loop()
    watch._loop_thread = threading.get_ident()
    return watch


async def test_b7_a_loop_that_turns_between_two_looks_is_not_blocked(watch: LoopWatch) -> None:
    for look in range(5):
        assert watch._check(look * 10.0) is True
        await asyncio.sleep(0)  # its answer
        await asyncio.sleep(0)
    assert (watch.blocks, watch.block) == (0, None)


async def test_b7_the_task_that_runs_at_two_looks_in_a_row_is_blamed(watch: LoopWatch) -> None:
    watch._check(0.0)
    watch._check(0.7)
    assert watch.block is None, "seen once"
    watch._check(0.8)
    assert watch.block is not None
    task = asyncio.current_task()
    assert task is not None
    assert repr(task.get_name()) in watch.block.by
    assert watch.block.place is not None
    assert watch.block.place.file.endswith("test_loop_watch.py")


async def test_b7_a_loop_that_is_busy_with_many_blames_none_of_them_at_once(
    watch: LoopWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_current_task", lambda: asyncio.Future())
    for look in (0.0, 0.7, 0.8, 2.0, 4.0):
        watch._check(look)
    assert watch.blocks == 0
    watch._suspect = None
    monkeypatch.setattr(watch, "_current_task", lambda: None)
    watch._check(5.0)
    assert watch.blocks == 1, "but that it does not turn is said"


async def test_b7_a_loop_that_is_closed_ends_the_watch(watch: LoopWatch) -> None:
    closed = asyncio.new_event_loop()
    closed.close()
    watch._loop = closed
    assert watch._check(0.0) is False


def test_b7_what_an_attempt_s_error_says_depends_on_whose_it_is() -> None:
    block = LoopBlock(
        10.0, "task hog, job 7", CodeLine("jobs.py", 133, "time.sleep(60)"), "7", 14.5
    )
    assert (
        block.seen_by("7") == "it blocked the event loop for 4.5s at jobs.py:133 `time.sleep(60)`"
    )
    assert block.seen_by("8") == (
        "the event loop was blocked for 4.5s by task hog, job 7, at jobs.py:133 `time.sleep(60)`"
    )
    assert block.cause(code=False) == "by task hog, job 7, at jobs.py:133"
