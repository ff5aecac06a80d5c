"""The defects of underway's scheduler: Headway has none of them (UD7)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from headway import Headway, Schedule
from tests.reference.scenes import work_of
from tests.support import eventually

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def fired(db: psycopg.Connection[Any]) -> list[tuple[str, datetime]]:
    """Every occurrence that there is a job of, with its schedule."""
    query = """select headers->>'schedule', (headers->>'occurrence')::timestamptz from jobs
               order by 2, 1"""
    return [(name, moment) for name, moment in db.execute(query).fetchall()]


async def test_ud7_a_task_has_several_schedules_each_with_its_input(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: one schedule for each queue. Headway: any number, in the code and at run time."""

    @hw.task(
        schedule=[
            Schedule("@hourly", name="north", input={"region": "north"}),
            Schedule("@hourly", name="south", input={"region": "south"}),
        ]
    )
    async def report(region: str) -> str:
        return region

    hw.session.clock.fixed = NOON - HOUR / 2
    await hw.schedules.put("east", report, "0 12 * * *", input={"region": "east"})
    await hw.run_until_idle()
    hw.session.clock.fixed = NOON
    await hw.run_until_idle()
    assert fired(db) == [("east", NOON), ("north", NOON), ("south", NOON)]
    wrong = "select count(*) from jobs where headers->>'schedule' <> result #>> '{}'"
    assert db.execute(wrong).fetchone() == (0,)


async def test_ud7_what_was_missed_is_made_up_for_as_the_schedule_says(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: never. Headway: skipped, once, or each of them, the newest `most` of them."""
    work = work_of(hw)
    hw.session.clock.fixed = NOON
    await hw.schedules.put("skip", work, "@hourly", catch_up="skip")
    await hw.schedules.put("one", work, "@hourly", catch_up="one")
    await hw.schedules.put("all", work, "@hourly", catch_up="all", most=3)
    hw.session.clock.fixed = NOON + 5.5 * HOUR
    await hw.run_until_idle()
    all_ = [("all", NOON + n * HOUR) for n in (3, 4, 5)]
    assert fired(db) == [*all_, ("one", NOON + 5 * HOUR)]


async def test_ud7_what_overlaps_is_allowed_skipped_or_queued(
    hw: Headway, db: psycopg.Connection[Any], start: Any
) -> None:
    """Underway: no choice; with a key the enqueue fails. Headway: as the schedule says."""
    release = asyncio.Event()

    @hw.task
    async def work() -> None:
        await release.wait()

    hw.session.clock.fixed = NOON
    for overlap in ("allow", "skip", "queue"):
        await hw.schedules.put(overlap, work, "@hourly", overlap=overlap, catch_up="all")
    hw.session.clock.fixed = NOON + 2 * HOUR
    running = start(poll="50ms")
    states = """select headers->>'schedule', array_agg(state order by headers->>'occurrence') from jobs
                group by 1 order by 1"""
    await eventually(
        lambda: (
            db.execute(states).fetchall()
            == [
                ("allow", ["running", "running"]),
                ("queue", ["running", "blocked"]),
                ("skip", ["running"]),
            ]
        )
    )
    release.set()
    await eventually(lambda: db.execute("select 1 from job").fetchone() is None)
    await running.stop()


async def test_ud7_who_is_left_fires_when_the_one_that_fired_is_gone(
    hw: Headway, db: psycopg.Connection[Any], start: Any
) -> None:
    """Underway: a scheduler that finds another one at it ends, and nobody follows. Headway: one does.

    Through a kill -9, too: tests/schedules/test_fleet_month.py.
    """
    await hw.schedules.put("often", work_of(hw), "@every 1s", catch_up="all")
    first = start(poll="1h")
    await eventually(lambda: fired(db))
    start(poll="1h", lease="1s")
    await eventually(lambda: db.execute("select count(*) from worker").fetchone() == (2,))
    await first.stop()
    there = len(fired(db))
    await eventually(lambda: len(fired(db)) > there + 1)
    row = db.execute("select since from schedule").fetchone()
    assert row is not None
    moments = [moment for _, moment in fired(db)]
    assert moments == [row[0] + timedelta(seconds=n + 1) for n in range(len(moments))]


async def test_ud7_a_job_that_cannot_be_made_stops_no_other_schedule(
    hw: Headway, db: psycopg.Connection[Any], start: Any
) -> None:
    """Underway: an error while enqueuing ends the scheduler. Headway: it is tried again, others fire."""
    db.execute("create table refused as select 'bad' as queue")
    db.execute(
        f"""create function refuse() returns trigger language plpgsql as
            $$ begin
              if new.queue in (select queue from {hw.session.schema}.refused) then
                raise exception 'not today';
              end if;
              return new;
            end $$"""
    )
    db.execute("create trigger refuse before insert on job for each row execute function refuse()")
    work = work_of(hw)
    await hw.schedules.put("a bad one", work.using(queue="bad"), "@every 1s", catch_up="all")
    await hw.schedules.put("good", work, "@every 1s", catch_up="all")
    running = start(poll="100ms")
    await eventually(lambda: len(fired(db)) >= 2)
    assert {name for name, _ in fired(db)} == {"good"}
    db.execute("delete from refused")
    await eventually(lambda: "a bad one" in {name for name, _ in fired(db)})
    await running.stop()
    (row,) = db.execute("select since from schedule where name = 'a bad one'").fetchall()
    made = [moment for name, moment in fired(db) if name == "a bad one"]
    assert made == [row[0] + timedelta(seconds=n + 1) for n in range(len(made))]
