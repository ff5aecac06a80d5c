from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.store.statements import fleet
from tests.cli.conftest import Command
from tests.support import eventually


@pytest.fixture
def worker(app: Headway) -> int:
    """A worker elsewhere that does nothing by itself."""
    return app._session.client.run_sync(
        fleet.register("elsewhere:1", "0", 10, ["mail"], ["send"], 600, None)
    )


def test_a_worker_is_asked_to_drain_and_the_list_shows_it(
    headway: Command, headway_json: Callable[..., Any], worker: int
) -> None:
    headway("worker-drain", worker)
    (row,) = headway_json("worker-list")
    assert (row["id"], row["alive"], row["draining"]) == (worker, True, True)
    (line,) = [line for line in headway("worker-list").stdout.splitlines() if "elsewhere" in line]
    assert line.split()[:3] == [str(worker), "elsewhere:1", "draining"]


def test_one_that_is_not_alive_is_exit_code_1(
    headway: Command, headway_json: Callable[..., Any], worker: int
) -> None:
    answer = headway_json("worker-drain", worker, 10**9, code=1)
    assert answer == {"asked": [worker], "not_alive": [10**9], "not_ended": []}
    headway("worker-drain", "seven", code=2)
    headway("worker-drain", code=2)


def test_waiting_has_an_end(
    headway: Command, headway_json: Callable[..., Any], app: Headway, worker: int
) -> None:
    """It does not end while we wait, so that the wait does."""
    answer = headway_json("worker-drain", worker, "--wait", "300ms", code=1)
    assert answer["not_ended"] == [worker]


async def test_one_that_drains_while_we_wait_has_ended(
    hw: Headway, start: Callable[..., Any], headway: Command
) -> None:
    @hw.task
    async def send() -> None: ...

    running = start()
    worker = await eventually(lambda: running.worker.id)
    await asyncio.to_thread(headway, "worker-drain", worker, "--wait", "90s")
    await eventually(running.done)
