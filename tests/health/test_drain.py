"""Draining a worker from afar: by notification, by its heartbeat, by SQL."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway import Headway
from tests.support import DEADLINE, Running, eventually


class Gate:
    """A task that says that it began and waits to be let go."""

    def __init__(self, hw: Headway) -> None:
        self.began = asyncio.Event()
        self.opened = asyncio.Event()

        @hw.task
        async def gate() -> str:
            self.began.set()
            await self.opened.wait()
            return "let go"

        self.task = gate


@pytest.fixture
def gate(hw: Headway) -> Gate:
    return Gate(hw)


async def _at_work(gate: Gate, running: Running) -> Any:
    """A job in the worker's hands."""
    job = await gate.task.enqueue()
    await gate.began.wait()
    assert running.worker.id
    return job


@pytest.mark.parametrize("listen", [True, False], ids=["told", "found by its heartbeat"])
async def test_g11_a_worker_that_is_drained_finishes_what_it_has_and_ends(
    hw: Headway, gate: Gate, start: Any, listen: bool
) -> None:
    running = start(grace="1h", lease="9s", listen=listen)
    job = await _at_work(gate, running)
    assert await hw.workers.drain(running.worker.id) is True
    await eventually(lambda: running.worker._upkeep.health.draining)
    late = await gate.task.enqueue()
    assert not running.done()
    gate.opened.set()
    await eventually(running.done)
    assert running.worker.report.settled == {"succeed": 1}
    assert running.worker.drained_remotely
    assert await job.result(timeout=DEADLINE) == "let go"
    assert (await late.status()).state == "ready"


async def test_g11_asked_again_and_again_it_still_waits_for_what_runs(
    hw: Headway, gate: Gate, start: Any
) -> None:
    """A second signal means haste; a second request to drain does not."""
    running = start(grace="1h", lease="9s")
    await _at_work(gate, running)
    worker, heartbeat = running.worker.id, running.worker._upkeep.heartbeat
    assert await hw.workers.drain(worker) is True
    await eventually(lambda: running.worker._upkeep.health.draining)
    assert await hw.workers.drain(worker) is True
    before = heartbeat.beaten_at
    await eventually(lambda: heartbeat.beaten_at != before)  # it has found the request there, too
    gate.opened.set()
    await eventually(running.done)
    assert running.worker.report.settled == {"succeed": 1}


async def test_only_the_worker_that_is_meant_drains(
    hw: Headway, gate: Gate, start: Any, db: Any
) -> None:
    first, second = start(), start()
    await eventually(lambda: first.worker.id and second.worker.id)
    stays = second.worker.id
    (asked,) = db.execute("select drain(%s)", [first.worker.id]).fetchone()
    assert asked is True
    await eventually(first.done)
    job = await gate.task.enqueue()
    gate.opened.set()
    assert await job.result(timeout=DEADLINE) == "let go"
    assert not second.done()
    assert second.worker.id == stays
    assert not second.worker.drained_remotely


async def test_there_must_be_such_a_worker(hw: Headway, gate: Gate, start: Any, db: Any) -> None:
    assert await hw.workers.drain(10**9) is False
    assert db.execute("select drain(%s)", [10**9]).fetchone() == (False,)
    running = start()
    await eventually(lambda: running.worker.id)
    gone = running.worker.id
    await running.stop()
    assert await hw.workers.drain(gone) is False
    # A consumer in SQL has a row among the workers and receives no notification.
    await gate.task.enqueue()
    db.execute("select * from claim('default', lease => '1 hour')").fetchall()
    (consumer,) = db.execute("select id from worker where version = 'sql'").fetchone()
    assert await hw.workers.drain(consumer) is False


async def test_a_worker_says_whether_it_listens(
    hw: Headway, gate: Gate, start: Any, db: Any
) -> None:
    hears, polls = start(lease="9s"), start(lease="9s", listen=False)
    await eventually(lambda: hears.worker.id and polls.worker.id)
    said = "select listening from worker where id = %s"
    await eventually(lambda: db.execute(said, [hears.worker.id]).fetchone() == (True,))
    await eventually(lambda: db.execute(said, [polls.worker.id]).fetchone() == (False,))
