"""Occurrences that were missed while no worker ran: skipped, made up for once, or all made up for."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Headway, Task
from tests.schedules.travel import Travel, at


@pytest.fixture
def report(hw: Headway) -> Task[..., None]:
    @hw.task
    async def report() -> None: ...

    return report


@pytest.mark.parametrize(
    ("rule", "made"),
    [
        ({"catch_up": "skip"}, []),
        ({"catch_up": "one"}, ["17:00"]),
        ({}, ["17:00"]),
        ({"catch_up": "all"}, ["13:00", "14:00", "15:00", "16:00", "17:00"]),
        ({"catch_up": "all", "max_catch_up": 2}, ["16:00", "17:00"]),
    ],
)
async def test_missed_occurrences_are_made_up_for_as_the_rule_says(
    hw: Headway, travel: Travel, report: Task[..., None], rule: dict[str, Any], made: list[str]
) -> None:
    await hw.schedules.put("nightly", report, "@hourly", **rule)
    await travel.run()
    await travel.run("17:30")
    assert travel.made() == made
    await travel.run("18:00")
    assert travel.made() == [*made, "18:00"], "and then it goes on"


async def test_what_was_missed_is_told(
    hw: Headway, travel: Travel, report: Task[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    await hw.schedules.put("nightly", report, "@hourly")
    await travel.run("17:30")
    missed = "nightly missed its occurrences from 2030-01-01T13:00:00Z on"
    assert f"{missed}; 1 of them fire now (catch_up='one')" in caplog.text


async def test_a_little_late_is_not_missed(
    hw: Headway, travel: Travel, report: Task[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    await hw.schedules.put("nightly", report, "@hourly", catch_up="skip")
    await travel.run("13:00:59")
    assert travel.made() == ["13:00"]
    assert "missed" not in caplog.text


async def test_everything_that_was_missed_runs_in_its_order(hw: Headway, travel: Travel) -> None:
    ran: list[str] = []

    @hw.task(concurrency_key="one at a time")
    async def report() -> None:
        ran.append("")

    await hw.schedules.put("nightly", report, "@hourly", catch_up="all", overlap="allow")
    await travel.run("2030-01-02T12:30")
    assert len(ran) == 24
    assert len(set(travel.made())) == 24


async def test_a_year_without_a_worker_is_bounded(
    hw: Headway, travel: Travel, report: Task[..., None]
) -> None:
    await hw.schedules.put("ticks", report, "@every 1s", catch_up="all", max_catch_up=50)
    await travel.run("2031-01-01T12:00")
    made = travel.made()
    assert (len(made), made[0], made[-1]) == (50, "2031-01-01T11:59:11Z", "2031-01-01T12:00")


async def test_what_ended_meanwhile_is_made_up_for(
    hw: Headway, travel: Travel, report: Task[..., None]
) -> None:
    await hw.schedules.put("nightly", report, "@hourly", catch_up="all", ends_at=at("14:00"))
    await travel.run("20:00")
    assert travel.made() == ["13:00", "14:00"]
    status = await hw.schedules.get("nightly")
    assert status is not None
    assert status.next_at is None
