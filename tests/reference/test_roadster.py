"""The behaviours (R) and defects (RD) of roadster that no other folder proves."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, WorkerOptions
from tests.reference.scenes import work_of
from tests.support import DEADLINE, eventually


async def test_r23_a_batch_says_nothing_of_its_ids(
    hw: Headway, caplog: pytest.LogCaptureFixture
) -> None:
    """Roadster: ids of a batch are logged at debug and below. Headway: never; they are returned."""
    caplog.set_level(logging.DEBUG, "headway")
    made = await work_of(hw).enqueue_many([{"number": n} for n in range(3)])
    assert len({job.id for job in made}) == 3
    assert not [job for job in made if str(job.id) in caplog.text]


async def test_rd2_a_job_that_outlasts_its_lease_runs_once(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """Roadster: what takes longer than the timeout runs twice at once. Headway: a lease is renewed for as
    long as the worker lives; a timeout is another matter, and there is none by default."""
    ran, release = list[int](), asyncio.Event()

    @hw.task
    async def work(ctx: Context) -> int:
        ran.append(ctx.attempt)
        await release.wait()
        return ctx.attempt

    for _ in range(2):
        start(lease="6s")  # a busy machine may stop for a second or two
    job = await work.enqueue()
    await eventually(lambda: ran)
    first = db.execute("select max(expires_at) from worker").fetchone()
    assert first is not None
    over = "select clock_timestamp() > %s + interval '0.5 s'"
    await eventually(lambda: db.execute(over, first).fetchone() == (True,))
    release.set()
    assert await job.result(timeout=DEADLINE) == 1
    assert ran == [1]


async def _work(number: int = 0) -> int:
    return number


async def test_rd5_a_schedule_fires_without_being_polled_for(hw: Headway, start: Any) -> None:
    """Roadster: up to ten seconds late. Headway: the leader sleeps until exactly then, and hears
    of what is put meanwhile."""
    hw.task(name="work")(_work)
    worker = start(poll="1h")
    await eventually(lambda: worker.worker.id)
    await hw.schedules.put("soon", "work", "@every 1s", input={"number": 3})

    async def fired() -> Any:
        status = await hw.schedules.get("soon")
        return status is not None and status.last_job

    job_id = await eventually(fired)
    await hw.schedules.remove("soon")
    assert await hw.job(job_id).result(timeout=DEADLINE) == 3


def _heavy() -> None:
    """A process imports it."""


async def test_r18_processes_are_one_for_each_core_and_slots_are_100(
    hw: Headway, start: Any, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roadster: as many worker tasks as cores. Headway: a number of processes for tasks that need them; a
    slot costs next to nothing, so there are 100."""
    task = hw.task(name="heavy", executor="process")(_heavy)
    monkeypatch.setattr(sys.modules[__name__], "_heavy", task)
    work_of(hw)
    worker = start()
    (slots,) = await eventually(lambda: db.execute("select slots from worker").fetchone())
    assert slots == WorkerOptions().concurrency == 100
    assert worker.worker._claiming.planner._slots_of == {"heavy": os.cpu_count()}
