"""Schedules put at run time: in a transaction, by name, with options; and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway, Task
from headway.errors import ConfigError, InvalidInput, ScheduleNotFound, UnknownTask
from tests.schedules.travel import NOON, Travel, at


@pytest.fixture
def report(hw: Headway) -> Task[..., str]:
    @hw.task
    async def report(region: str = "eu") -> str:
        return region

    return report


async def test_g1_a_schedule_is_there_when_the_transaction_commits_and_not_before(
    hw: Headway, travel: Travel, report: Task[..., str], dsn: str
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        async with conn.transaction():
            await hw.schedules.put("nightly", report, "@hourly", conn=conn)
            assert await hw.schedules.get("nightly") is None
        assert travel.names() == ["nightly"]
    await travel.run("13:00")
    assert travel.made() == ["13:00"]


async def test_what_is_removed_and_put_again_in_an_old_transaction_repeats_nothing(
    hw: Headway, report: Task[..., str], db: psycopg.Connection[Any], dsn: str
) -> None:
    """It begins when it is put. Its predecessor fired those since the transaction began."""
    await hw.schedules.put("nightly", report, "@every 1h")
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await conn.execute("select 1")
        (between,) = db.execute("select clock_timestamp()").fetchone() or ()
        await hw.schedules.remove("nightly", conn=conn)
        await hw.schedules.put("nightly", report, "@every 1h", conn=conn)
        await conn.commit()
    assert db.execute("select done_until > %s from schedule", [between]).fetchone() == (True,)


async def test_g1_a_schedule_is_never_there_when_the_transaction_rolls_back(
    hw: Headway, travel: Travel, report: Task[..., str], dsn: str
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await hw.schedules.put("nightly", report, "@hourly", conn=conn)
        await conn.rollback()
        await hw.schedules.put("kept", report, "@hourly", conn=conn)
        await conn.commit()
        await hw.schedules.put("kept", report, "@daily", conn=conn)
        await hw.schedules.remove("kept", conn=conn)
        await conn.rollback()
    (status,) = await hw.schedules.list()
    assert (status.name, status.spec) == ("kept", "@hourly")


def test_g1_the_same_on_a_sync_connection(
    dsn: str, schema: str, db: psycopg.Connection[Any]
) -> None:
    with Headway(dsn, schema=schema) as hw, psycopg.connect(dsn) as conn:

        @hw.task
        def note() -> None: ...

        hw.schedules.put_sync("a", note, "@daily", conn=conn)
        conn.rollback()
        hw.schedules.put_sync("b", note, "@daily", conn=conn)
        assert hw.schedules.list_sync() == []
        conn.commit()
        assert [one.name for one in hw.schedules.list_sync()] == ["b"]
        hw.schedules.remove_sync("b", conn=conn)
        conn.rollback()
        assert hw.schedules.get_sync("b") is not None


async def test_each_may_have_a_task_by_name_and_an_input(
    hw: Headway, travel: Travel, report: Task[..., str], db: psycopg.Connection[Any]
) -> None:
    for tenant in ("acme", "zeta"):
        await hw.schedules.put(tenant, "report", "@hourly", input={"region": tenant})
    await travel.run("13:00")
    query = "select headers ->> 'schedule', result from jobs order by 1"
    assert db.execute(query).fetchall() == [("acme", "acme"), ("zeta", "zeta")]


async def test_a_call_with_options_is_what_is_made(
    hw: Headway, travel: Travel, report: Task[..., str], db: psycopg.Connection[Any]
) -> None:
    call = report.using(queue="slow", priority=7, headers={"tenant": "acme"})
    await hw.schedules.put("nightly", call, "@hourly")
    await travel.run("13:00")
    (made,) = db.execute("select queue, priority, headers from jobs").fetchall()
    headers = {"tenant": "acme", "schedule": "nightly", "occurrence": "2030-01-01T13:00:00Z"}
    assert made == ("slow", 7, headers)


async def test_a_flow_can_be_put(hw: Headway, travel: Travel) -> None:
    order = hw.flow("order")

    @order.step
    async def only(n: int) -> None: ...

    await hw.schedules.put("orders", order, "@hourly", input={"n": 1})
    await travel.run("13:00")
    assert travel.states() == ["succeeded"]


async def test_a_single_time_fires_once_and_is_over(
    hw: Headway, travel: Travel, report: Task[..., str]
) -> None:
    await hw.schedules.put("once", report, "2030-01-01T13:00")
    await travel.run("13:00")
    await travel.run("2030-01-05T13:00")
    assert travel.made() == ["13:00"]
    status = await hw.schedules.get("once")
    assert status is not None
    assert (status.next_at, status.last_at) == (None, at("13:00"))


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["2030-01-01T11:59", "2030-01-01T12:00:00Z", "1999-12-31T00:00"])
async def test_a_time_that_has_passed_is_refused(
    hw: Headway, travel: Travel, report: Task[..., str], spec: str
) -> None:
    with pytest.raises(ConfigError):
        await hw.schedules.put("once", report, spec)
    assert travel.names() == []


async def test_an_end_that_has_passed_is_refused(
    hw: Headway, travel: Travel, report: Task[..., str]
) -> None:
    with pytest.raises(ConfigError, match="2030-01-01 12:00:00"):
        await hw.schedules.put("late", report, "@daily", ends_at=NOON)
    with pytest.raises(ConfigError):
        hw.schedules.put_sync("late", report, "@daily", ends_at=NOON - timedelta(days=1))
    assert travel.names() == []


async def test_a_refused_change_leaves_what_was_there(
    hw: Headway, travel: Travel, report: Task[..., str]
) -> None:
    await hw.schedules.put("nightly", report, "@daily")
    with pytest.raises(ConfigError):
        await hw.schedules.put("nightly", report, "2029-01-01T00:00")
    status = await hw.schedules.get("nightly")
    assert status is not None
    assert status.spec == "@daily"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("0 25 * * *", "an invalid hour"),
        ("* * * *", "the wrong number of fields"),
        ("@fortnightly", "the names are @hourly, @daily"),
        ("@every 0.5s", "less than a second"),
        ("@daily[Europe/Berln]", "unknown time zone 'Europe/Berln'; did you mean Europe/Berlin"),
        ("@daily[Mars/Olympus]", "unknown time zone 'Mars/Olympus'"),
        ("2030-02-30T08:00", "invalid time"),
        ("@daily\0", "unknown schedule"),
    ],
)
async def test_a_spec_that_cannot_be_read_is_refused(
    hw: Headway, travel: Travel, report: Task[..., str], spec: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        await hw.schedules.put("nightly", report, spec)
    assert travel.names() == []


@pytest.mark.parametrize("wrong", [{"region": 5}, {"continent": "eu"}, {"region": "a\0b"}])
async def test_an_input_that_does_not_fit_the_task_is_refused(
    hw: Headway, travel: Travel, report: Task[..., str], wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match="schedule 'nightly': "):
        await hw.schedules.put("nightly", report, "@daily", input=wrong)
    assert travel.names() == []


async def test_a_task_that_the_app_does_not_know_is_refused(
    hw: Headway, report: Task[..., str]
) -> None:
    with pytest.raises(UnknownTask, match="'raport'"):
        await hw.schedules.put("nightly", "raport", "@daily")


async def test_a_task_of_another_app_can_be_put_without_a_check(
    hw: Headway, report: Task[..., str]
) -> None:
    await hw.schedules.put("far", "elsewhere", "@daily", input={"region": "eu"}, check=False)
    status = await hw.schedules.get("far")
    assert status is not None
    assert (status.task, status.input) == ("elsewhere", {"region": "eu"})
    run = await (await hw.schedules.run("far")).status()
    assert (run.task, run.state) == ("elsewhere", "ready")
    with pytest.raises(ConfigError):
        await hw.schedules.put("far", report, "@daily", check=False)
    with pytest.raises(ConfigError):
        await hw.schedules.put("far", "report", "@daily", no_keys=True)


@pytest.mark.parametrize(
    "options", [{"delay": "5m"}, {"at": NOON + timedelta(days=1)}, {"conn": object()}]
)
async def test_only_the_schedule_says_when(
    hw: Headway, report: Task[..., str], options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="'nightly'"):
        await hw.schedules.put("nightly", report.using(**options), "@daily")


@pytest.mark.parametrize("name", ["", "x" * 151, "a\0b", " a", "a\nb"])
async def test_a_name_that_cannot_be_is_refused(
    hw: Headway, travel: Travel, report: Task[..., str], name: str
) -> None:
    with pytest.raises(ConfigError, match="schedule name"):
        await hw.schedules.put(name, report, "@daily")
    assert travel.names() == []


async def test_the_longest_name_works_through_and_through(
    hw: Headway, travel: Travel, report: Task[..., str]
) -> None:
    for rule in ("allow", "skip", "queue"):
        await hw.schedules.put(f"{rule:x<150}", report, "@every 90.5s", overlap=rule)
    travel.on("2m")
    await travel.run()
    assert travel.states() == ["succeeded"] * 3


async def test_a_schedule_that_is_not_there_is_not_found_in_any_way(hw: Headway) -> None:
    schedules = hw.schedules
    for asked in (
        schedules.pause("x"),
        schedules.resume("x"),
        schedules.run("x"),
        schedules.next("x"),
    ):
        with pytest.raises(ScheduleNotFound, match="'x'"):
            await asked
    assert await schedules.remove("x") is False
    assert await schedules.get("x") is None
    for ask in (
        schedules.pause_sync,
        schedules.resume_sync,
        schedules.run_sync,
        schedules.next_sync,
    ):
        with pytest.raises(ScheduleNotFound):
            ask("x")
    assert schedules.remove_sync("x") is False
    assert schedules.get_sync("x") is None
