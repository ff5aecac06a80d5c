"""An occurrence while the previous job has not ended: another job, none, or one that runs after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Key, Retry, Schedule, Unique
from headway.errors import ConfigError
from tests.schedules.travel import Travel, at
from tests.support import Running, eventually


async def _held(hw: Headway, travel: Travel, rule: str, **options: Any) -> None:
    """A schedule whose first job waits for a worker that serves its queue; and its second is due."""

    @hw.task(queue="held", schedule=Schedule("@hourly", overlap=rule, **options))  # type: ignore[arg-type]
    async def report() -> None: ...

    for moment in ("12:00", "13:00", "14:00"):
        travel.to(moment)
        await hw.run_until_idle(queues={"other": 1})


async def test_by_default_jobs_of_a_schedule_may_overlap(hw: Headway, travel: Travel) -> None:
    await _held(hw, travel, "allow")
    assert travel.states() == ["ready", "ready"]
    assert travel.made() == ["13:00", "14:00"]


async def test_skip_makes_none_while_one_has_not_ended(hw: Headway, travel: Travel) -> None:
    await _held(hw, travel, "skip")
    assert travel.made() == ["13:00"]
    status = await hw.schedules.get("report")
    assert status is not None
    assert status.next_at == at("15:00"), "it was passed over, not put off"
    await hw.run_until_idle(queues={"held": 1})
    await hw.run_until_idle(queues={"held": 1})
    assert travel.made() == ["13:00"], "and is not made up for"
    await travel.run("15:00")
    assert travel.made() == ["13:00", "15:00"]


async def test_skip_waits_for_a_retry_as_well(hw: Headway, travel: Travel) -> None:
    retry = Retry(max_attempts=2, base="90m", cap="90m", jitter=0)

    @hw.task(retry=retry, schedule=Schedule("@hourly", overlap="skip"))
    async def report(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("not yet")

    await travel.run()
    await travel.run("13:00")
    await travel.run("14:00")
    assert travel.made() == ["13:00"]
    await travel.run("14:30")
    assert travel.states() == ["succeeded"]
    await travel.run("15:00")
    assert travel.made() == ["13:00", "15:00"]


async def test_of_all_that_was_missed_skip_makes_one(hw: Headway, travel: Travel) -> None:
    @hw.task(schedule=Schedule("@hourly", overlap="skip", catch_up="all"))
    async def report() -> None: ...

    await travel.run()
    await travel.run("17:30")
    assert travel.made() == ["13:00"]


async def test_queue_runs_them_one_after_another_and_in_order(
    hw: Headway, travel: Travel, start: Callable[..., Running]
) -> None:
    ran: list[str] = []
    at_once: list[int] = []
    under_way = 0
    let_go = asyncio.Event()

    @hw.task(schedule=Schedule("@hourly", overlap="queue", catch_up="all"))
    async def report(ctx: Context) -> None:
        nonlocal under_way
        under_way += 1
        at_once.append(under_way)
        await let_go.wait()
        under_way -= 1
        ran.append(ctx.headers["occurrence"][11:16])

    await hw.run_until_idle(queues={"other": 1})
    travel.to("17:30")
    await hw.run_until_idle(queues={"other": 1})
    start(lease="1000d")
    await eventually(lambda: travel.states() == ["running"] + ["blocked"] * 4)
    let_go.set()
    await eventually(lambda: len(ran) == 5)
    assert ran == ["13:00", "14:00", "15:00", "16:00", "17:00"]
    assert at_once == [1] * 5


async def test_a_job_that_queues_waits_for_its_own_schedule_alone(
    hw: Headway, travel: Travel, db: psycopg.Connection[Any]
) -> None:
    @hw.task(
        queue="held",
        schedule=[
            Schedule("@hourly", name="a", overlap="queue"),
            Schedule("@hourly", name="b", overlap="queue", input={"n": 2}),
        ],
    )
    async def report(n: int = 1) -> None: ...

    for moment in ("12:00", "13:00"):
        travel.to(moment)
        await hw.run_until_idle(queues={"other": 1})
    query = "select keys ->> 'concurrency' from jobs order by 1"
    assert db.execute(query).fetchall() == [("schedule a",), ("schedule b",)]


# -- what cannot be both --------------------------------------------------------------------------


async def test_skip_and_a_unique_key_of_its_own_are_refused(hw: Headway) -> None:
    @hw.task(unique="mine")
    async def report() -> None: ...

    problem = "schedule 'a': report has a unique key of its own; leave out overlap=\"skip\""
    with pytest.raises(ConfigError, match=problem):
        await hw.schedules.put("a", report, "@daily", overlap="skip")

    @hw.task
    async def plain() -> None: ...

    with pytest.raises(ConfigError, match="plain"):
        await hw.schedules.put("a", plain.using(unique="x"), "@daily", overlap="skip")


async def test_queue_and_a_concurrency_key_of_its_own_are_refused(hw: Headway) -> None:
    @hw.task(concurrency_key=Key("disk"))
    async def report() -> None: ...

    problem = "schedule 'a': report has a concurrency key of its own; leave out overlap=\"queue\""
    with pytest.raises(ConfigError, match=problem):
        await hw.schedules.put("a", report, "@daily", overlap="queue")

    flow = hw.flow("flow", concurrency_key="disk")

    @flow.step
    async def only() -> None: ...

    with pytest.raises(ConfigError, match="flow"):
        await hw.schedules.put("a", flow, "@daily", overlap="queue")


def test_a_declared_schedule_that_cannot_be_both_is_refused_when_a_worker_starts(
    hw: Headway,
) -> None:
    @hw.task(unique="mine", schedule=Schedule("@daily", overlap="skip"))
    async def report() -> None: ...

    with pytest.raises(ConfigError, match="schedule 'report'"):
        hw.worker()


async def test_a_unique_key_of_the_task_decides_which_jobs_are_made(
    hw: Headway, travel: Travel
) -> None:
    """The occurrence is the key of a job that has no other."""

    @hw.task(queue="held", unique="mine", schedule="@hourly")
    async def report() -> None: ...

    for moment in ("12:00", "13:00", "14:00"):
        travel.to(moment)
        await hw.run_until_idle(queues={"other": 1})
    assert travel.made() == ["13:00"]


async def test_a_unique_key_that_rejects_does_not_stop_the_schedule(
    hw: Headway, travel: Travel
) -> None:
    """There is no caller who could be told."""

    @hw.task(queue="held", unique=Unique("mine", policy="reject"), schedule="@hourly")
    async def report() -> None: ...

    for moment in ("12:00", "13:00", "14:00"):
        travel.to(moment)
        await hw.run_until_idle(queues={"other": 1})
    assert travel.made() == ["13:00"]
    status = await hw.schedules.get("report")
    assert status is not None
    assert status.next_at == at("15:00")
