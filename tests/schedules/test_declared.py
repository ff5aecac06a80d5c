"""Schedules declared on tasks and flows: written down by a worker, fired at their moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway, Key, Schedule
from headway.errors import ConfigError, InvalidInput
from tests.schedules.travel import NOON, Travel, at


async def test_a_declared_schedule_makes_a_job_at_each_occurrence(
    hw: Headway, travel: Travel
) -> None:
    ran: list[str] = []

    @hw.task(schedule="@hourly")
    async def report() -> None:
        ran.append(travel.clock.fixed.isoformat() if travel.clock.fixed else "")

    await travel.run()
    assert ran == [], "it begins now, not with what was before"
    await travel.run("12:59:59")
    assert ran == []
    for hour in ("13:00", "14:00", "15:00"):
        await travel.run(hour)
        await travel.run()
    assert ran == [at(hour).isoformat() for hour in ("13:00", "14:00", "15:00")]
    assert travel.made("report") == ["13:00", "14:00", "15:00"]


@pytest.mark.parametrize(
    ("spec", "moments"),
    [
        ("*/20 13 * * *", ["13:00", "13:20", "13:40", "2030-01-02T13:00"]),
        ("*/20 0 13 * * *", ["13:00:00", "13:00:20", "13:00:40", "2030-01-02T13:00"]),
        ("@daily", ["2030-01-02T00:00", "2030-01-03T00:00"]),
        ("@daily[America/New_York]", ["2030-01-02T05:00", "2030-01-03T05:00"]),
        ("@every 90s", ["12:01:30", "12:03:00", "12:04:30"]),
        ("2030-01-01T14:00[Europe/Berlin]", ["13:00"]),
        ("30 2 * * *[Europe/Berlin]", ["2030-01-02T01:30"]),
    ],
)
async def test_every_kind_of_spec_fires(
    hw: Headway, travel: Travel, spec: str, moments: list[str]
) -> None:
    @hw.task(schedule=spec)
    async def report() -> None: ...

    await travel.run()
    for moment in moments:
        await travel.run(moment)
    assert [at(one) for one in travel.made()] == [at(moment) for moment in moments]


async def test_the_clocks_go_forward_and_a_time_that_is_jumped_over_happens(
    hw: Headway, travel: Travel
) -> None:
    @hw.task(schedule="30 2 * * *[Europe/Berlin]")
    async def report() -> None: ...

    travel.to("2030-03-30T00:00")
    await travel.run()
    for moment in ("2030-03-30T01:30", "2030-03-31T01:00", "2030-04-01T00:30"):
        await travel.run(moment)
    assert travel.made() == ["2030-03-30T01:30", "2030-03-31T01:00", "2030-04-01T00:30"]


async def test_the_clocks_go_back_and_a_time_that_comes_twice_happens_once(
    hw: Headway, travel: Travel
) -> None:
    @hw.task(
        schedule=["30 2 * * *[Europe/Berlin]", Schedule("30 */2 * * *[Europe/Berlin]", name="rep")]
    )
    async def report() -> None: ...

    travel.to("2030-10-27T00:00")
    await travel.run()
    for moment in ("00:30", "01:30", "02:30", "03:30"):
        await travel.run(f"2030-10-27T{moment}")
    assert travel.made("report") == ["2030-10-27T00:30"], "the first of two half past two"
    both = ["2030-10-27T00:30", "2030-10-27T01:30", "2030-10-27T03:30"]
    assert travel.made("rep") == both, "what repeats goes on"


async def test_several_schedules_have_an_input_each(hw: Headway, travel: Travel) -> None:
    got: list[tuple[str, int]] = []

    @hw.task(
        schedule=[
            Schedule("0 13 * * *", input={"region": "eu"}),
            Schedule("0 13 * * *", input={"region": "us", "days": 7}),
            Schedule("0 14 * * *", name="weekly", input={"region": "all"}),
        ]
    )
    async def report(region: str, days: int = 1) -> None:
        got.append((region, days))

    await travel.run()
    await travel.run("13:00")
    assert sorted(got) == [("eu", 1), ("us", 7)]
    await travel.run("14:00")
    assert got[2:] == [("all", 1)]
    assert travel.names() == ["report", "report: 0 13 * * *", "weekly"]


async def test_a_flow_is_started_at_its_first_step(hw: Headway, travel: Travel) -> None:
    seen: list[str] = []
    order = hw.flow("order", schedule=Schedule("0 13 * * *", input={"day": "tuesday"}))

    @order.step
    async def count(day: str) -> Any:
        seen.append(f"counted {day}")
        return mail.next(day=day)

    @order.step
    async def mail(day: str) -> None:
        seen.append(f"mailed {day}")

    await travel.run()
    await travel.run("13:00")
    assert seen == ["counted tuesday", "mailed tuesday"]


async def test_a_job_says_of_which_occurrence_it_is(
    hw: Headway, travel: Travel, db: psycopg.Connection[Any]
) -> None:
    @hw.task(schedule="@hourly")
    async def report() -> None: ...

    await travel.run()
    travel.to("13:00")
    await hw.worker(queues={"elsewhere": 1}).run_until_idle()  # fires, and runs nothing
    (job,) = db.execute("select id, state, headers, keys, created_at, run_at from jobs").fetchall()
    headers = {"schedule": "report", "occurrence": "2030-01-01T13:00:00Z"}
    assert job[1:4] == ("ready", headers, {"unique": "report@2030-01-01T13:00:00Z"})
    status = await hw.schedules.get("report")
    assert status is not None
    assert (status.last_at, status.last_job) == (at("13:00"), job[0])


async def test_a_job_has_what_its_task_says(
    hw: Headway, travel: Travel, db: psycopg.Connection[Any]
) -> None:
    @hw.task(schedule="@hourly", queue="slow", priority=3, concurrency_key=Key("disk"), delay="5m")
    async def report() -> None: ...

    await travel.run()
    await travel.run("13:00")
    query = "select queue, priority, state, run_at, keys ->> 'concurrency' from jobs"
    assert db.execute(query).fetchall() == [("slow", 3, "scheduled", at("13:05"), "disk")]


async def test_a_worker_that_starts_again_neither_loses_nor_repeats_an_occurrence(
    hw: Headway, travel: Travel, another: Callable[..., Headway]
) -> None:
    for app in (hw, another(), another()):

        @app.task(name="report", schedule="@every 1h")
        async def report() -> None: ...

        await travel.run(hw=app)
        travel.on("40m")
        await travel.run(hw=app)
    assert travel.made() == ["13:00", "14:00"], "counted from the first deploy on"


async def test_what_changed_in_the_code_holds_from_the_next_worker_on(
    hw: Headway, travel: Travel, another: Callable[..., Headway]
) -> None:
    @hw.task(name="report", schedule=Schedule("@hourly", input={"n": 1}, jitter="1s"))
    async def report(n: int) -> None: ...

    await travel.run()
    newer = another()

    @newer.task(name="report", schedule=Schedule("30 * * * *", input={"n": 2}))
    async def changed(n: int) -> None: ...

    await travel.run("12:40", hw=newer)
    assert travel.made() == [], "another spec begins now"
    status = await newer.schedules.get("report")
    assert status is not None
    assert (status.spec, status.input, status.jitter) == ("30 * * * *", {"n": 2}, 0)
    assert (status.created_at, status.changed_at) == (NOON, at("12:40"))
    await travel.run("13:30", hw=newer)
    assert travel.made() == ["13:30"]


async def test_the_code_does_not_replace_a_schedule_that_a_person_put(
    hw: Headway, travel: Travel, caplog: pytest.LogCaptureFixture
) -> None:
    @hw.task(schedule="@hourly")
    async def report() -> None: ...

    await travel.run()
    await hw.schedules.put("report", report, "@daily")
    await travel.run("13:00")
    assert travel.made() == []
    status = await hw.schedules.get("report")
    assert status is not None
    assert (status.spec, status.declared) == ("@daily", False)
    assert "schedule report of the code is ignored" in caplog.text
    assert await hw.schedules.remove("report")
    await travel.run()
    status = await hw.schedules.get("report")
    assert status is not None
    assert (status.spec, status.declared) == ("@hourly", True), "it is the code's again"


# -- what cannot be right -------------------------------------------------------------------------


def test_bad_schedules_are_refused_where_they_are_declared(hw: Headway) -> None:
    with pytest.raises(ConfigError, match=r"'61 \* \* \* \*'"):

        @hw.task(schedule="61 * * * *")
        async def one() -> None: ...

    with pytest.raises(ConfigError, match="'Europe/Berln'"):
        hw.flow("two", schedule="@daily[Europe/Berln]")

    @hw.task(schedule=Schedule("@daily", name="nightly"))
    async def three() -> None: ...

    with pytest.raises(ConfigError, match="'nightly'"):

        @hw.task(schedule=Schedule("@hourly", name="nightly"))
        async def four() -> None: ...

    assert set(hw.tasks) == {"three"}, "what was refused is not there"


def test_an_input_that_does_not_fit_is_refused_when_a_worker_starts(hw: Headway) -> None:
    @hw.task(schedule=Schedule("@daily", input={"region": 5}))
    async def report(region: str) -> None: ...

    with pytest.raises(InvalidInput, match=r"schedule 'report': .*region"):
        hw.worker()


def test_an_argument_that_is_missing_is_noticed_when_a_worker_starts(hw: Headway) -> None:
    @hw.task(schedule="@daily")
    async def report(region: str) -> None: ...

    with pytest.raises(InvalidInput, match=r"schedule 'report': .*region"):
        hw.worker()
