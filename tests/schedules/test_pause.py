"""Pause, resume and run now: said by a person, kept over restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway, Schedule
from headway.errors import HeadwayError
from tests.schedules.travel import NOON, Travel, at


@pytest.fixture
async def declared(hw: Headway, travel: Travel) -> str:
    """The name of a schedule that a worker has declared."""

    @hw.task(schedule=Schedule("@hourly", catch_up="all"))
    async def report() -> None: ...

    await travel.run()
    return "report"


async def test_a_paused_schedule_makes_nothing_and_shows_its_actor_and_reason(
    hw: Headway, travel: Travel, declared: str
) -> None:
    await hw.schedules.pause(declared, reason="holidays", actor="ada")
    await travel.run("15:00")
    assert travel.made() == []
    status = await hw.schedules.get(declared)
    assert status is not None
    assert (status.paused, status.paused_at) == (True, NOON)
    assert (status.paused_by, status.pause_reason) == ("ada", "holidays")


async def test_pausing_again_keeps_since_when(hw: Headway, travel: Travel, declared: str) -> None:
    await hw.schedules.pause(declared, actor="ada", reason="holidays")
    travel.to("13:30")
    await hw.schedules.pause(declared, actor="bob", reason="still")
    status = await hw.schedules.get(declared)
    assert status is not None
    assert (status.paused_at, status.paused_by, status.pause_reason) == (NOON, "bob", "still")


async def test_resuming_goes_on_from_now(hw: Headway, travel: Travel, declared: str) -> None:
    """Occurrences during the pause are not made up for, whatever `catch_up` says."""
    await hw.schedules.pause(declared)
    travel.to("15:30")
    assert await hw.schedules.resume(declared) is True
    await travel.run()
    assert travel.made() == []
    await travel.run("16:00")
    assert travel.made() == ["16:00"]
    assert await hw.schedules.resume(declared) is False, "it was not paused"
    status = await hw.schedules.get(declared)
    assert status is not None
    assert (status.paused, status.paused_at) == (False, None)
    assert (status.paused_by, status.pause_reason) == (None, None)


async def test_what_was_missed_before_the_pause_is_not_made_up_for_either(
    hw: Headway, travel: Travel, declared: str
) -> None:
    travel.to("13:30")
    await hw.schedules.pause(declared)
    await hw.schedules.resume(declared)
    await travel.run()
    assert travel.made() == []


async def test_a_pause_outlasts_restarts_and_deploys(
    hw: Headway, travel: Travel, declared: str, another: Callable[..., Headway]
) -> None:
    await hw.schedules.pause(declared, reason="holidays", actor="ada")
    newer = another()

    @newer.task(name="report", schedule="*/30 * * * *")
    async def report() -> None: ...

    await travel.run("14:00", hw=newer)
    await hw.schedules.put("report", "report", "*/10 * * * *")
    await travel.run("15:00", hw=newer)
    assert travel.made() == []
    status = await hw.schedules.get(declared)
    assert status is not None
    assert (status.spec, status.paused_by) == ("*/10 * * * *", "ada")
    await hw.schedules.resume(declared)
    await travel.run("15:10")
    assert travel.made() == ["15:10"]


async def test_a_job_can_be_made_now_and_the_next_occurrence_stays(
    hw: Headway, travel: Travel, declared: str, db: psycopg.Connection[Any]
) -> None:
    travel.to("12:20:30")
    job = await hw.schedules.run(declared)
    assert job.created
    again = await hw.schedules.run(declared)
    assert again.created
    assert again != job
    status = await job.status()
    assert status.state == "ready"
    row = db.execute("select headers, keys from jobs where id = %s", (job.id,)).fetchone()
    assert row is not None
    assert row[0] == {
        "schedule": "report",
        "occurrence": "2030-01-01T12:20:30.000000Z",
        "manual": "true",
    }
    assert (row[1] or {}).get("unique") is None
    found = await hw.schedules.get(declared)
    assert found is not None
    assert (found.next_at, found.last_at) == (at("13:00"), None)
    await travel.run("13:00")
    assert len(travel.made()) == 3
    assert travel.states() == ["succeeded"] * 3


async def test_a_paused_schedule_can_be_run_now_and_stays_paused(
    hw: Headway, travel: Travel, declared: str
) -> None:
    await hw.schedules.pause(declared)
    assert (await hw.schedules.run(declared)).created
    await travel.run("14:00")
    assert travel.states() == ["succeeded"]
    status = await hw.schedules.get(declared)
    assert status is not None
    assert status.paused


async def test_run_now_makes_no_second_job_where_the_schedule_would_skip_it(
    hw: Headway, travel: Travel
) -> None:
    @hw.task(schedule=Schedule("@hourly", overlap="skip", input={"n": 5}))
    async def report(n: int) -> int:
        return n

    await travel.run()
    first = await hw.schedules.run("report")
    second = await hw.schedules.run("report")
    assert first.created
    assert not second.created
    assert second == first
    await travel.run()
    assert await first.result(timeout=60) == 5
    assert (await hw.schedules.run("report")).created


async def test_sync_twins_do_the_same(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:

        @hw.task
        def report() -> None: ...

        hw.schedules.put_sync("a", report, "@daily")
        hw.schedules.pause_sync("a", reason="why", actor="ada")
        (found,) = hw.schedules.list_sync()
        assert (found.paused, found.pause_reason) == (True, "why")
        job = hw.schedules.run_sync("a")
        assert (job.created, job.status_sync().state) == (True, "ready")
        assert hw.schedules.resume_sync("a") is True
        assert hw.schedules.resume_sync("a") is False
        assert hw.schedules.remove_sync("a") is True


async def test_a_nul_byte_is_refused_in_words(hw: Headway, declared: str) -> None:
    nul = "a\0b"
    for asked in (
        hw.schedules.get(nul),
        hw.schedules.next(nul),
        hw.schedules.pause(nul),
        hw.schedules.pause(declared, reason=nul),
        hw.schedules.pause(declared, actor=nul),
        hw.schedules.resume(nul),
        hw.schedules.run(nul),
        hw.schedules.remove(nul),
    ):
        with pytest.raises(HeadwayError, match=r"NUL|printable"):
            await asked
