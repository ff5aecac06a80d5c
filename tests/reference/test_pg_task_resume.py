"""pg_task's examples, P136 to P138: a loop, a delay, and a failure that is resumed after a repair."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from headway import Headway, Next, Retry


async def test_p136_a_counter_runs_to_its_end(hw: Headway) -> None:
    """pg_task: each step saves the next number. Headway: a step that goes to itself."""
    flow = hw.flow("counter")

    @flow.step
    async def count(up_to: int, cycle: int = 0) -> Next | int:
        return count.next(up_to, cycle + 1) if cycle < up_to else cycle

    job = await flow.enqueue(up_to=7)
    assert (await hw.run_until_idle()).settled == {"advance": 7, "succeed": 1}
    assert await job.result() == 7


async def test_p137_a_delayed_step_is_there_before_it_runs(hw: Headway) -> None:
    """pg_task: saved with its moment, then run. Headway: the same; `retry` runs it sooner."""
    flow = hw.flow("nap")

    @flow.step
    async def sleep(minutes: int) -> Next:
        return wake_up.after(timedelta(minutes=minutes), slept=minutes)

    @flow.step
    async def wake_up(slept: int) -> str:
        return f"slept {slept}"

    job = await flow.enqueue(minutes=90)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.input) == ("scheduled", "wake_up", {"slept": 90})
    assert await job.retry()
    await hw.run_until_idle()
    assert await job.result() == "slept 90"


def _greeter(hw: Headway) -> Any:
    """The tutorial of pg_task: read a name from a file, then say hello."""
    flow = hw.flow("greeter")

    @flow.step(retry=Retry(max_attempts=3, base=0))
    def read_name(filename: str) -> Next:
        return say_hello.next(name=Path(filename).read_text())

    @flow.step
    def say_hello(name: str) -> str:
        return f"Hello, {name}"

    return flow


async def test_p138_a_failed_step_waits_for_the_world_to_be_fixed(
    hw: Headway, db: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """pg_task: the row keeps step and error; clearing `error` reruns the step. Headway: archived with
    all its attempts, heard of by who listens, resumed with fresh attempts, here in SQL."""
    name = tmp_path / "name.txt"
    job = await _greeter(hw).enqueue(filename=str(name))
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("failed", "read_name", 3)
    stream = hw.failures(since="1h")
    failure = await anext(stream)
    await stream.aclose()
    assert (failure.job_id, failure.step, failure.attempt) == (job.id, "read_name", 3)
    assert failure.error["type"] == "FileNotFoundError"

    name.write_text("Fixed World")
    assert db.execute("select retry(%s)", [job.id]).fetchone() == (True,)
    await hw.run_until_idle()
    assert await job.result() == "Hello, Fixed World"
    outcomes = ["retried", "retried", "failed", "moved", "done"]
    assert [row.outcome for row in await job.history()] == outcomes


async def test_p138_or_its_input_is_mended_and_all_that_failed_so_are_resumed(
    hw: Headway, tmp_path: Path
) -> None:
    """pg_task: the step's JSON may be rewritten by hand, or `error` cleared for all. Headway: `edit`,
    checked by the step where the job stands, and `retry_failed` by task, step and error."""
    flow, there = _greeter(hw), tmp_path / "there.txt"
    there.write_text("World")
    jobs = await flow.enqueue_many({"filename": str(tmp_path / f"{n}.txt")} for n in range(2))
    await hw.run_until_idle()
    for job in jobs:
        assert await job.edit({"filename": str(there)})
    assert await hw.retry_failed(task="greeter", error="PermissionError") == 0
    assert await hw.retry_failed(task="greeter", step="read_name", error="FileNotFound") == 2
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == ["Hello, World"] * 2
