"""Limits of every kind across four processes that are killed and replaced: never over, never stuck below.

The runs are read from the record that the database made in the claims' own transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headway import Headway
from tests.fixtures.processes import WorkerProcess
from tests.limits.record import Record, assert_within
from tests.limits.tasks import BURST, IN_QUEUE, OF_KEY, OF_TASK, RATE, register
from tests.support import eventually

pytestmark = pytest.mark.slow
KEYS = [f"tenant-{n}" for n in range(50)]


async def test_limits_hold_across_processes_that_are_killed(
    hw: Headway, record: Record, spawn_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    register(hw)
    gate = tmp_path / "gate"

    def spawn() -> WorkerProcess:
        options = ("--concurrency", "10", "--lease", "2s", "--poll", "1h")
        return spawn_worker("tests.limits.tasks:hw", *options, GATE=str(gate))

    await hw.queues.limit("all", concurrency=IN_QUEUE)
    await hw.tasks["keyed"].enqueue_many({"key": key, "n": n} for n in range(4) for key in KEYS)
    for name in ("narrow", "wide"):
        await hw.tasks[name].enqueue_many({"n": n} for n in range(80))
    jobs = 4 * len(KEYS) + 160
    fleet = [spawn() for _ in range(4)]

    # Nothing ends before the gate is open, so as many run as may: not one less.
    await eventually(lambda: record.running(alive=True) == IN_QUEUE)
    await _replace_one_that_works(fleet, record, spawn)
    await eventually(lambda: record.running(alive=True) == record.running() == IN_QUEUE)
    gate.touch()
    for begun in (60, 160):
        await eventually(lambda begun=begun: len(record.starts()) > begun)
        await _replace_one_that_works(fleet, record, spawn)
    # All of them hear at once that there is room for twelve.
    while record.left():
        with record.between_claims("queue", "all"):
            await hw.queues.limit("all", concurrency=0)
        await eventually(lambda: record.running() == 0)
        begun = len(record.starts())
        await hw.queues.limit("all", concurrency=IN_QUEUE)
        await eventually(lambda begun=begun: len(record.starts()) > begun or not record.left())

    record.assert_each_ended_once(jobs)
    assert record.over() == []
    assert record.most_at_once("queue") == {"all": IN_QUEUE}
    assert record.most_at_once("task")["narrow"] <= OF_TASK
    assert max(record.most_at_once("key").values()) <= OF_KEY


async def test_rates_of_keys_hold_across_processes_that_are_killed(
    hw: Headway, record: Record, spawn_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    """Every start takes a token: one that is lost with its worker, and the one that makes up for it."""
    register(hw)
    gate, keys = tmp_path / "gate", KEYS[:5]

    def spawn() -> WorkerProcess:
        options = ("--concurrency", "10", "--lease", "2s", "-q", "rated")
        return spawn_worker("tests.limits.tasks:hw", *options, GATE=str(gate))

    await hw.tasks["rated"].enqueue_many({"key": key, "n": n} for n in range(40) for key in keys)
    jobs = 40 * len(keys)
    fleet = [spawn() for _ in range(3)]
    # Nothing ends before the gate is open: all workers killed until then are lost in the middle of it.
    for begun in (5, 12):
        await eventually(lambda begun=begun: len(record.starts()) > begun)
        await _replace_one_that_works(fleet, record, spawn)
    gate.touch()
    for begun in (60, 120):
        await eventually(lambda begun=begun: len(record.starts()) > begun)
        await _replace_one_that_works(fleet, record, spawn)
    await eventually(lambda: record.left() == 0)
    record.assert_each_ended_once(jobs)
    for key in keys:
        # Suspects of a lost worker that cannot run in isolation yet go back, and so do their tokens.
        starts = record.starts(f"rated/{key}", ran=True)
        assert_within([one.at for one in starts], RATE, BURST)


async def _replace_one_that_works(
    fleet: list[WorkerProcess], record: Record, spawn: Callable[[], WorkerProcess]
) -> None:
    """SIGKILL for one that has jobs, in the middle of them."""
    worker = await eventually(
        lambda: next((one for one in fleet if one.pid in record.busy()), None)
    )
    fleet.remove(worker)
    worker.kill()
    fleet.append(spawn())
