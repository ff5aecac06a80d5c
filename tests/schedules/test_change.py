"""Changing a schedule while it runs, spreading its jobs, and ending it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway, Schedule, Task
from headway.core.firing import jittered
from tests.schedules.travel import NOON, Travel, at
from tests.support import Running, eventually


@pytest.fixture
def report(hw: Headway) -> Task[..., str]:
    @hw.task
    async def report(region: str = "eu") -> str:
        return region

    return report


async def test_the_same_spec_goes_on_where_it_is(
    hw: Headway, travel: Travel, report: Task[..., str], db: psycopg.Connection[Any]
) -> None:
    await hw.schedules.put("a", report, "@every 1h")
    await travel.run()
    travel.to("12:40")
    await hw.schedules.put("a", report, "@every 1h", input={"region": "us"})
    await travel.run()
    assert await hw.schedules.next("a", 2) == [at("13:00"), at("14:00")]
    await travel.run("13:00")
    assert db.execute("select result from jobs").fetchall() == [("us",)]


async def test_what_was_due_before_a_change_is_made_with_what_holds_now(
    hw: Headway, travel: Travel, report: Task[..., str], db: psycopg.Connection[Any]
) -> None:
    await hw.schedules.put("a", report, "@hourly")
    travel.to("13:20")
    await hw.schedules.put("a", report, "@hourly", input={"region": "us"})
    await travel.run()
    assert travel.made() == ["13:00"], "it is neither lost nor made with the old input"
    assert db.execute("select result from jobs").fetchall() == [("us",)]


async def test_another_spec_begins_now(hw: Headway, travel: Travel, report: Task[..., str]) -> None:
    await hw.schedules.put("a", report, "*/10 * * * *", catch_up="all")
    await travel.run()
    travel.to("12:45")
    await hw.schedules.put("a", report, "*/15 * * * *", catch_up="all")
    await travel.run()
    assert travel.made() == [], "what the old one had missed went with it"
    await travel.run("13:00")
    assert travel.made() == ["13:00"]


async def test_putting_the_same_again_changes_nothing(
    hw: Headway, travel: Travel, report: Task[..., str], db: psycopg.Connection[Any]
) -> None:
    rules: dict[str, Any] = {"input": {"region": "us"}, "jitter": "5m", "overlap": "skip"}
    await hw.schedules.put("a", report, "@hourly", **rules)
    await travel.run()
    before = db.execute("select s::text, ctid::text from schedule s").fetchall()
    travel.to("12:30")
    await hw.schedules.put("a", report, "@hourly", **rules)
    assert db.execute("select s::text, ctid::text from schedule s").fetchall() == before


async def test_a_schedule_may_be_given_to_another_task(
    hw: Headway, travel: Travel, report: Task[..., str], db: psycopg.Connection[Any]
) -> None:
    @hw.task
    async def other() -> None: ...

    await hw.schedules.put("a", report, "@hourly")
    await hw.schedules.put("a", other, "@hourly")
    await travel.run("13:00")
    assert db.execute("select task from jobs").fetchall() == [("other",)]
    status = await hw.schedules.get("a")
    assert status is not None
    assert status.task == "other"


async def test_what_was_removed_makes_nothing_and_its_jobs_stay(
    hw: Headway, travel: Travel, report: Task[..., str]
) -> None:
    await hw.schedules.put("a", report, "@hourly")
    await travel.run("13:00")
    assert await hw.schedules.remove("a") is True
    assert await hw.schedules.remove("a") is False
    await travel.run("14:00")
    assert travel.made() == ["13:00"]


async def test_a_running_worker_takes_up_what_is_put_and_changed_without_waiting(
    hw: Headway, travel: Travel, report: Task[..., str], start: Callable[..., Running]
) -> None:
    """It is told: nothing here is as short as the time after which it would look by itself."""
    start(poll="1h", lease="1000d")
    assert await eventually(lambda: _on_duty(hw))
    travel.clock.fixed = NOON - timedelta(hours=2)
    await hw.schedules.put("a", report, "@every 1h")
    travel.clock.fixed = NOON
    await hw.schedules.put("a", report, "@every 1h", input={"region": "us"})
    assert await eventually(lambda: travel.made() == ["12:00"])
    await hw.schedules.pause("a")
    travel.to("14:30")
    await hw.schedules.resume("a")
    await eventually(lambda: _looked_at(hw))
    assert travel.made() == ["12:00"]


async def _on_duty(hw: Headway) -> bool:
    return bool(await _value(hw, "select count(*) from leader"))


async def _looked_at(hw: Headway) -> bool:
    return await _value(hw, "select next_at from schedules") == at("15:00")


async def _value(hw: Headway, query: str) -> Any:
    async with await psycopg.AsyncConnection.connect(hw.dsn) as conn:
        await conn.execute(f"set search_path = {hw._session.schema}")  # type: ignore[arg-type]
        row = await (await conn.execute(query)).fetchone()  # type: ignore[arg-type]
        return row and row[0]


# -- jitter ---------------------------------------------------------------------------------------


async def test_jitter_puts_the_job_off_to_its_moment(
    hw: Headway, travel: Travel, report: Task[..., str], db: psycopg.Connection[Any]
) -> None:
    await hw.schedules.put("a", report, "@hourly", jitter="10m")
    await travel.run("13:00")
    moment = jittered("a", at("13:00"), 600)
    assert at("13:00") < moment < at("13:10")
    found = db.execute("select state, run_at, headers ->> 'occurrence' from jobs").fetchall()
    assert found == [("scheduled", moment, "2030-01-01T13:00:00Z")]
    await travel.run(moment - timedelta(seconds=1))
    assert travel.states() == ["scheduled"]
    await travel.run(moment)
    assert travel.states() == ["succeeded"]


async def test_jitter_and_the_delay_of_the_task_add_up(
    hw: Headway, travel: Travel, db: psycopg.Connection[Any]
) -> None:
    @hw.task(delay="1h", schedule=Schedule("@hourly", jitter="10m"))
    async def report() -> None: ...

    await travel.run()
    await travel.run("13:00")
    expected = jittered("report", at("13:00"), 600) + timedelta(hours=1)
    assert db.execute("select run_at from jobs").fetchall() == [(expected,)]


async def test_what_is_made_up_for_runs_at_once_if_its_moment_has_passed(
    hw: Headway, travel: Travel, report: Task[..., str]
) -> None:
    await hw.schedules.put("a", report, "@hourly", jitter="10m")
    await travel.run("13:30")
    assert travel.states() == ["succeeded"]


# -- the end --------------------------------------------------------------------------------------


async def test_nothing_is_due_after_the_end(
    hw: Headway, travel: Travel, report: Task[..., str]
) -> None:
    await hw.schedules.put("a", report, "@hourly", ends_at=at("14:00"))
    assert await hw.schedules.next("a") == [at("13:00"), at("14:00")]
    for hour in ("13:00", "14:00", "15:00", "16:00"):
        await travel.run(hour)
    assert travel.made() == ["13:00", "14:00"]
    assert await hw.schedules.next("a") == []


async def test_an_end_that_is_moved_brings_a_schedule_back_without_what_was_between(
    hw: Headway, travel: Travel, report: Task[..., str]
) -> None:
    await hw.schedules.put("a", report, "@hourly", ends_at=at("13:30"), catch_up="all")
    await travel.run("13:00")
    await travel.run("15:30")
    assert travel.made() == ["13:00"]
    await hw.schedules.put("a", report, "@hourly", ends_at=at("16:30"), catch_up="all")
    await travel.run()
    assert travel.made() == ["13:00"]
    await travel.run("17:00")
    assert travel.made() == ["13:00", "16:00"]


async def test_a_declared_time_that_has_passed_does_no_harm(hw: Headway, travel: Travel) -> None:
    """Code is not deleted the minute after it had its effect."""

    @hw.task(schedule="2030-01-01T11:00")
    async def report() -> None: ...

    await travel.run()
    await travel.run("2030-01-02T11:00")
    assert travel.made() == []
    (status,) = await hw.schedules.list()
    assert (status.next_at, status.last_at) == (None, None)
