"""Looking at schedules: what there is, how it stands, and what will happen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headway import Headway, Schedule, ScheduleStatus, preview
from headway.errors import ConfigError
from tests.schedules.travel import NOON, Travel, at

BERLIN = ZoneInfo("Europe/Berlin")


async def test_a_schedule_says_everything_about_itself(hw: Headway, travel: Travel) -> None:
    @hw.task
    async def report(region: str) -> None: ...

    await hw.schedules.put(
        "nightly",
        report,
        "0 8 * * *[Europe/Berlin]",
        input={"region": "eu"},
        catch_up="all",
        max_catch_up=7,
        overlap="skip",
        jitter="5m",
        ends_at=at("2030-02-01T00:00"),
    )
    (found,) = await hw.schedules.list()
    assert found == ScheduleStatus(
        name="nightly",
        task="report",
        spec="0 8 * * *[Europe/Berlin]",
        input={"region": "eu"},
        next_at=datetime(2030, 1, 2, 8, tzinfo=BERLIN),
        last_at=None,
        last_job=None,
        catch_up="all",
        max_catch_up=7,
        overlap="skip",
        jitter=300.0,
        ends_at=at("2030-02-01T00:00"),
        paused=False,
        paused_at=None,
        paused_by=None,
        pause_reason=None,
        owner="",
        declared=False,
        created_at=NOON,
        changed_at=NOON,
    )
    assert await hw.schedules.get("nightly") == found
    assert hw.schedules.get_sync("nightly") == found
    assert hw.schedules.list_sync() == [found]


async def test_moments_are_in_the_zone_of_the_schedule(hw: Headway, travel: Travel) -> None:
    @hw.task(schedule=Schedule("0 8 * * *[Asia/Kathmandu]", ends_at=at("2030-02-01T00:00")))
    async def report() -> None: ...

    await travel.run()
    await travel.run("2030-01-02T02:15")
    found = await hw.schedules.get("report")
    assert found is not None
    for moment in (found.next_at, found.last_at, found.ends_at):
        assert moment is not None
        assert moment.utcoffset() == timedelta(hours=5, minutes=45)


async def test_schedules_are_listed_by_name(hw: Headway, travel: Travel) -> None:
    @hw.task
    async def report() -> None: ...

    for name in ("c", "a", "b"):
        await hw.schedules.put(name, report, "@daily")
    assert [one.name for one in await hw.schedules.list()] == ["a", "b", "c"]


async def test_what_comes_is_shown_from_where_the_schedule_stands(
    hw: Headway, travel: Travel
) -> None:
    @hw.task
    async def report() -> None: ...

    await hw.schedules.put("a", report, "@every 1h")
    travel.to("13:30")
    expected = [at("14:00"), at("15:00"), at("16:00")]
    assert await hw.schedules.next("a", 3) == expected, "counted from when it was put"
    assert hw.schedules.next_sync("a", 3) == expected
    assert len(await hw.schedules.next("a")) == 10
    assert await hw.schedules.next("a", 0) == []
    with pytest.raises(ConfigError, match="count -1"):
        await hw.schedules.next("a", -1)


async def test_what_comes_is_what_happens(hw: Headway, travel: Travel) -> None:
    """Over a change of the clocks as well."""

    @hw.task(schedule="30 */2 * * *[Europe/Berlin]")
    async def report() -> None: ...

    travel.to("2030-03-30T20:00")
    await travel.run()
    coming = await hw.schedules.next("report", 8)
    for moment in coming:
        await travel.run(moment)
    assert [at(one) for one in travel.made()] == coming


# -- preview --------------------------------------------------------------------------------------


def test_preview_shows_what_happens_when_the_clocks_go_forward() -> None:
    friday = datetime(2026, 3, 27, 12, tzinfo=UTC)
    found = preview("30 2 * * *[Europe/Berlin]", after=friday, count=3)
    assert [str(moment) for moment in found] == [
        "2026-03-28 02:30:00+01:00",
        "2026-03-29 03:00:00+02:00",
        "2026-03-30 02:30:00+02:00",
    ]


def test_preview_shows_what_happens_when_the_clocks_go_back() -> None:
    before = datetime(2026, 10, 31, 12, tzinfo=UTC)
    named = preview("30 1 * * *[America/New_York]", after=before, count=2)
    assert [str(moment) for moment in named] == [
        "2026-11-01 01:30:00-04:00",
        "2026-11-02 01:30:00-05:00",
    ]
    repeated = preview("30 * * * *[America/New_York]", after=named[0] - timedelta(hours=1), count=3)
    assert [str(moment) for moment in repeated] == [
        "2026-11-01 01:30:00-04:00",
        "2026-11-01 01:30:00-05:00",
        "2026-11-01 02:30:00-05:00",
    ]


def test_preview_heeds_the_end_and_begins_now_if_not_told() -> None:
    ends = NOON + timedelta(hours=2)
    found = preview(Schedule("@hourly", ends_at=ends), after=NOON)
    assert found == [at("13:00"), at("14:00")]
    now = datetime.now(UTC)
    (first, second) = preview("@every 1h", count=2)
    assert now + timedelta(hours=1) <= first
    assert second - first == timedelta(hours=1)
    assert len(preview("@daily")) == 5
    assert preview("2030-01-01T13:00", after=NOON) == [at("13:00")]
    assert preview("2030-01-01T11:00", after=NOON) == []


@pytest.mark.parametrize(
    ("spec", "options", "problem"),
    [
        ("99 * * * *", {}, "an invalid minute"),
        ("@daily", {"after": NOON.replace(tzinfo=None)}, "has no time zone"),
        ("@daily", {"count": -1}, "count -1 must be"),
        ("@daily", {"count": 1.5}, "count 1.5 must be"),
        ("@daily[Europe/Berln]", {}, "did you mean Europe/Berlin"),
    ],
)
def test_preview_refuses_what_cannot_be(spec: str, options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        preview(spec, **options)
