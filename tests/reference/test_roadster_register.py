"""Registering: what roadster's processor takes and refuses is said when a task is defined."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headway import Headway, Schedule
from headway.errors import ConfigError
from tests.reference.scenes import work_of


async def _work(number: int = 0) -> int:
    return number


async def _schedules(hw: Headway) -> dict[str, tuple[str, Any]]:
    """What a worker has written down: spec and input by name."""
    await hw.run_until_idle()
    return {found.name: (found.spec, found.input) for found in await hw.schedules.list()}


async def test_r1_a_decorated_function_is_a_task_that_workers_know(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Roadster: a processor registers it. Headway: the decorator does, and a worker declares it."""
    task = work_of(hw)
    assert hw.get_task("work") is task
    job = await task.enqueue(number=3)
    await hw.run_until_idle()
    assert await job.result() == 3
    assert db.execute("select name, queue from task").fetchall() == [("work", "default")]


def test_r2_the_same_name_twice_is_refused(hw: Headway) -> None:
    """Roadster: AlreadyRegistered, and another error for another type. Headway: one for both, and the
    first one stays."""
    task = hw.task(name="work")(_work)
    for again in (lambda: hw.task(name="work")(_work), lambda: hw.flow("work")):
        with pytest.raises(ConfigError, match="'work' already"):
            again()
    assert hw.tasks == {"work": task}


async def test_r3_a_task_without_a_queue_is_in_the_default_one(hw: Headway) -> None:
    """Roadster: NoQueue, where neither worker nor configuration names one. Headway: there is always
    one; only a name that cannot be is refused."""
    task = work_of(hw)
    assert (await (await task.enqueue()).status()).queue == "default"
    for name in ("", " mail"):
        with pytest.raises(ConfigError, match="queue"):
            hw.task(name="other", queue=name)(_work)


async def test_r4_a_task_may_have_a_schedule(hw: Headway) -> None:
    """Roadster: register_periodic. Headway: an option; what is enqueued by hand works beside it."""
    task = hw.task(name="work", schedule=Schedule("0 8 * * *", input={"number": 1}))(_work)
    assert await _schedules(hw) == {"work": ("0 8 * * *", {"number": 1})}
    job = await task.enqueue(2)
    await hw.run_until_idle()
    assert await job.result() == 2


@pytest.mark.parametrize(
    "twice",
    [
        ["0 8 * * *", "0 8 * * *"],
        ["0 8 * * *", "0  8 * * *"],
        [Schedule("@daily", input={"number": 1}), Schedule("@daily", "other", {"number": 1})],
    ],
)
def test_r5_the_same_schedule_and_input_twice_is_refused(hw: Headway, twice: Any) -> None:
    """Roadster: AlreadyRegisteredPeriodic. Headway: the same, also under another name."""
    with pytest.raises(ConfigError, match="twice with the same input"):
        hw.task(name="work", schedule=twice)(_work)
    assert hw.tasks == {}


async def test_r6_another_schedule_or_input_of_the_same_task_is_another(hw: Headway) -> None:
    """Roadster: both are registered. Headway: each has a name of its own, given or made."""
    hw.task(
        name="work",
        schedule=[
            "0 8 * * *",
            "0 9 * * *",
            Schedule("0 8 * * *", input={"number": 1}),
            Schedule("0 8 * * *", "by name", {"number": 2}),
        ],
    )(_work)
    assert await _schedules(hw) == {
        "work": ("0 8 * * *", {"number": 0}),
        "work: 0 9 * * *": ("0 9 * * *", {"number": 0}),
        "work: 0 8 * * *": ("0 8 * * *", {"number": 1}),
        "by name": ("0 8 * * *", {"number": 2}),
    }


async def test_r7_a_schedule_makes_jobs_in_the_queue_of_its_task(hw: Headway) -> None:
    """Roadster: no queue is an error for periodic jobs, too. Headway: the task's, else the default."""
    hw.task(name="plain", schedule="@daily")(_work)
    hw.task(name="mail", queue="mail", schedule="@daily")(_work)
    assert set(await _schedules(hw)) == {"plain", "mail"}
    for name, queue in (("plain", "default"), ("mail", "mail")):
        job = await hw.schedules.run(name)
        assert (await job.status()).queue == queue
