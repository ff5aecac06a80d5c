"""Underway's tests of schedules: U30 to U35, U51 to U57, U64, U70 to U72, and part of U77."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway, Schedule, preview
from headway.errors import ConfigError
from tests.reference.scenes import two_steps, work_of
from tests.support import eventually

DAILY = "0 8 * * *[Europe/Berlin]"
MOMENT = datetime(2026, 3, 28, 7, tzinfo=UTC)
"""Eight in the morning in Berlin."""
HOUR, MICROSECOND = timedelta(hours=1), timedelta(microseconds=1)


async def occurrences(hw: Headway, db: psycopg.Connection[Any], now: datetime) -> list[datetime]:
    """What has been fired when nothing is left to be done at a moment."""
    hw.session.clock.fixed = now
    await hw.run_until_idle()
    rows = db.execute("select (headers->>'occurrence')::timestamptz from jobs order by 1")
    return [moment for (moment,) in rows]


async def test_u30_a_schedule_is_stored_with_its_zone_and_its_input(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: cron text, zone and input in columns. Headway: as it was written, and the whole job."""
    await hw.schedules.put("nightly", work_of(hw), DAILY, input={"number": 7})
    row = db.execute("select task, spec, job->'input' from schedule").fetchone()
    assert row == ("work", DAILY, {"number": 7})


async def test_u31_put_again_it_is_replaced(hw: Headway) -> None:
    """Underway: one schedule for each queue, the last call's. Headway: one for each name."""
    work = work_of(hw)
    await hw.schedules.put("nightly", work, DAILY, input={"number": 1})
    await hw.schedules.put("nightly", work, "@hourly", input={"number": 2})
    (only,) = await hw.schedules.list()
    assert (only.spec, only.input) == ("@hourly", {"number": 2})


async def test_u32_what_is_read_back_is_what_was_set(hw: Headway) -> None:
    """Underway: schedule and input. Headway: those, every option, and when it is due next."""
    await hw.schedules.put(
        "nightly",
        work_of(hw),
        DAILY,
        input={"number": 3},
        catch_up="all",
        overlap="queue",
        jitter=9,
    )
    found = await hw.schedules.get("nightly")
    assert found is not None
    assert (found.task, found.spec, found.input) == ("work", DAILY, {"number": 3})
    assert (found.catch_up, found.overlap, found.jitter) == ("all", "queue", 9)
    assert found.next_at is not None
    assert (found.next_at.hour, str(found.next_at.tzinfo)) == (8, "Europe/Berlin")


async def test_u33_where_there_is_none_none_is_read(hw: Headway) -> None:
    """Underway: None. Headway: the same."""
    assert await hw.schedules.get("nightly") is None
    assert await hw.schedules.list() == []


async def test_u34_a_schedule_is_removed(hw: Headway, db: psycopg.Connection[Any]) -> None:
    """Underway: the row is gone. Headway: the same, and it fires no more."""
    hw.session.clock.fixed = MOMENT - HOUR
    await hw.schedules.put("nightly", work_of(hw), DAILY)
    assert await hw.schedules.remove("nightly")
    assert await hw.schedules.get("nightly") is None
    assert await occurrences(hw, db, MOMENT) == []


async def test_u35_removing_what_is_not_there_is_no_error(hw: Headway) -> None:
    """Underway: Ok. Headway: the same; the answer says that there was none."""
    assert not await hw.schedules.remove("nightly")


@pytest.mark.parametrize("spec", ["0 */15 * * * *[America/Los_Angeles]", "@daily[Europe/London]"])
def test_u51_a_schedule_of_a_cron_expression_and_a_zone_is_made(spec: str) -> None:
    """Underway: the zone must be there. Headway: UTC if it is not; also intervals and single times."""
    assert Schedule(spec).spec == spec
    for further in ("15 9 * * *", "@every 90s", "2030-01-31T08:00[Europe/Berlin]"):
        assert Schedule(further).spec == further


def test_u52_a_bad_cron_expression_is_refused() -> None:
    """Underway: an error. Headway: one that names the text and what is wrong with it."""
    with pytest.raises(ConfigError, match=r"'99 8 \* \* \*'.* has a minute that cannot be"):
        Schedule("99 8 * * *")
    with pytest.raises(ConfigError, match="the wrong number of fields"):
        Schedule("every day[Europe/Berlin]")


def test_u53_a_bad_zone_is_refused() -> None:
    """Underway: an error. Headway: one that says what may have been meant."""
    with pytest.raises(ConfigError, match="Europe/Berlin"):
        Schedule("0 8 * * *[Europe/Berln]")


def test_u54_six_fields_begin_with_seconds() -> None:
    """Underway: a schedule at each full hour, seconds first; seven fields too. Headway: six or five."""
    coming = preview("0 0 * * * *[America/Los_Angeles]", after=MOMENT, count=2)
    assert coming == [MOMENT + HOUR, MOMENT + 2 * HOUR]
    assert str(coming[0].tzinfo) == "America/Los_Angeles"
    with pytest.raises(ConfigError, match="the wrong number of fields"):
        Schedule("0 0 0 * * * 2030[America/Los_Angeles]")


async def test_u55_what_was_due_a_moment_ago_is_fired_at_once(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: a wait for a time that has passed returns at once. Headway: it is fired, late."""
    hw.session.clock.fixed = MOMENT - HOUR
    await hw.schedules.put("nightly", work_of(hw), DAILY)
    assert await occurrences(hw, db, MOMENT + timedelta(seconds=30)) == [MOMENT]


async def test_u56_a_worker_sleeps_until_the_time_has_come(
    hw: Headway, db: psycopg.Connection[Any], start: Any
) -> None:
    """Underway: a wait of 10 ms ends then. Headway: it ends without a poll, by the database's clock."""
    await hw.schedules.put("often", work_of(hw), "@every 1s")
    start(poll="1h")
    fired = "select (headers->>'occurrence')::timestamptz, created_at from jobs order by 1 limit 2"
    first, second = await eventually(
        lambda: len(rows := db.execute(fired).fetchall()) == 2 and rows
    )
    assert first[0] <= first[1]
    assert second[0] <= second[1]
    assert second[0] - first[0] == timedelta(seconds=1)


async def test_u57_what_is_due_now_is_fired_now(hw: Headway, db: psycopg.Connection[Any]) -> None:
    """Underway: a wait for this very moment returns at once. Headway: it is fired, and no sooner."""
    hw.session.clock.fixed = MOMENT - HOUR
    await hw.schedules.put("nightly", work_of(hw), DAILY)
    assert await occurrences(hw, db, MOMENT - MICROSECOND) == []
    assert await occurrences(hw, db, MOMENT) == [MOMENT]
    assert await occurrences(hw, db, MOMENT + MICROSECOND) == [MOMENT]


async def test_u64_a_flow_of_one_step_has_a_schedule(hw: Headway) -> None:
    """Underway: stored and read back. Headway: the same; its input is checked against the first step."""
    flow = hw.flow("single")

    @flow.step
    async def only(number: int) -> int:
        return number

    await hw.schedules.put("nightly", flow, DAILY, input={"number": 5})
    found = await hw.schedules.get("nightly")
    assert found is not None
    assert (found.task, found.spec, found.input) == ("single", DAILY, {"number": 5})


async def test_u70_a_flow_is_made_at_its_first_step_when_it_is_due(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: the schedule of a job is stored. Headway: for a flow as for a task, and it is run."""
    hw.session.clock.fixed = MOMENT - HOUR
    await hw.schedules.put("nightly", two_steps(hw), DAILY, input={"number": 5})
    hw.session.clock.fixed = MOMENT
    await hw.run_until_idle(queues={"default": 1})
    assert db.execute("select task, step, input from jobs").fetchall() == [
        ("two", "second", {"number": 6})
    ]


async def test_u71_the_schedule_of_a_flow_is_removed(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: the row is gone. Headway: the same; what it made goes on."""
    hw.session.clock.fixed = MOMENT - HOUR
    await hw.schedules.put("nightly", two_steps(hw), DAILY, input={"number": 5})
    hw.session.clock.fixed = MOMENT
    await hw.run_until_idle(queues={"default": 1})
    assert await hw.schedules.remove("nightly")
    hw.session.clock.fixed = MOMENT + 25 * HOUR
    await hw.run_until_idle()
    assert db.execute("select state, result from jobs").fetchall() == [("succeeded", 60)]


async def test_u72_a_flow_without_a_schedule_has_none_to_remove(hw: Headway) -> None:
    """Underway: Ok. Headway: the same; the answer says so."""
    two_steps(hw)
    assert not await hw.schedules.remove("two")


async def test_u77_every_occurrence_is_a_run_of_its_own(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: each dispatch has a new run id, the stored template none. Headway: the same."""
    hw.session.clock.fixed = MOMENT - HOUR
    await hw.schedules.put("nightly", two_steps(hw), DAILY, input={"number": 5})
    await occurrences(hw, db, MOMENT)
    await occurrences(hw, db, MOMENT + 23 * HOUR)  # the clocks are changed that night
    ids = {job_id for (job_id,) in db.execute("select id from jobs")}
    assert len(ids) == 2
    assert db.execute("select job ? 'id' from schedule").fetchone() == (False,)
