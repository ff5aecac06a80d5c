"""A month of schedules, fired by workers that are killed all the time: each occurrence once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest

from headway import Headway, Schedule
from headway.core.clock import monotonic
from headway.core.firing import written
from tests.core import cron_oracle
from tests.schedules.fleet import DECLARED, Fleet
from tests.schedules.fleet_app import register
from tests.support import eventually

# The clocks of New York and Berlin jump forward in it, those of Sydney back.
BEGIN = datetime(2026, 3, 6, tzinfo=UTC)
END = datetime(2026, 4, 6, tzinfo=UTC)
LAST = END + timedelta(minutes=30)
"""When what was spread over half an hour is due as well."""
STEP = timedelta(hours=8)

PUT = [
    Schedule("0 */8 * * *", name="three a day", catch_up="skip"),
    Schedule("30 2 * * *[Australia/Sydney]", name="nights, one of which has it twice"),
    Schedule("*/20 1-3 * * *[America/New_York]", name="repeated", catch_up="all"),
    Schedule("30 1 20 3 *[Asia/Kolkata]", name="once in it"),
    Schedule("2026-03-29T02:30[Europe/Berlin]", name="one time, jumped over"),
    Schedule("@every 5h", name="spread", catch_up="all", jitter="30m"),
]
"""Schedules that are put at run time, before it begins."""


def due(schedule: Schedule) -> list[datetime]:
    """Every occurrence, by the oracle; an interval and a single time speak for themselves."""
    when, _, zone = schedule.spec.rstrip("]").partition("[")
    if when.startswith("@every"):
        amount, unit = int(when.split()[1][:-1]), when[-1]
        interval = timedelta(**{{"m": "minutes", "h": "hours"}[unit]: amount})
        return [BEGIN + n * interval for n in range(1, (LAST - BEGIN) // interval + 1)]
    if when.startswith("2026"):
        return [datetime(2026, 3, 29, 1, tzinfo=UTC)]
    return cron_oracle.due(when, ZoneInfo(zone or "UTC"), BEGIN, LAST)


async def live_through(fleet: Fleet, db: psycopg.Connection[Any]) -> None:
    """Goes on when all that is due has been fired. Every second, and at every sixth step, a worker is
    killed; in between one is stopped, until the step after has been taken without it."""
    chance, killed_at = Random(7), monotonic()
    for step in range(1, (END - BEGIN) // STEP + 1):
        moment = BEGIN + step * STEP
        fleet.travel(moment)
        await asyncio.sleep(chance.uniform(0, 0.05))  # before, while or after one fires
        if step % 6 == 0 or (step % 2 and monotonic() - killed_at > 1):
            fleet.kill_one()
            killed_at = monotonic()
        elif step % 2 == 0:
            fleet.stop_one()
        await eventually(lambda moment=moment: looked_at(db, moment))
        if step % 2:
            fleet.go_on()


async def outlast_back_offs(fleet: Fleet, db: psycopg.Connection[Any]) -> None:
    """Goes on in small steps until all jobs have ended: those of the killed wait for a while first.
    Nothing else is due in that time."""
    moment = LAST
    while db.execute("select 1 from job limit 1").fetchone():
        moment += timedelta(seconds=1)
        assert moment < LAST + timedelta(minutes=10), "some jobs never end"
        fleet.travel(moment)
        await asyncio.sleep(
            0.5
        )  # the time of the fleet goes twice as fast, not faster than its leases


def looked_at(db: psycopg.Connection[Any], moment: datetime) -> bool:
    """Whether every schedule that was due by a moment has been moved on."""
    due = "select 1 from schedule where next_at <= %s limit 1"
    return db.execute(due, (moment,)).fetchone() is None


@pytest.mark.slow
async def test_every_occurrence_of_a_month_is_fired_once_while_a_worker_is_killed_every_second(
    hw: Headway, db: psycopg.Connection[Any], dsn: str, schema: str, tmp_path: Path
) -> None:
    register(hw)
    hw._session.clock.fixed = BEGIN
    for each in PUT:
        await hw.schedules.put(
            each.name or "", "report", each.spec, catch_up=each.catch_up, jitter=each.jitter
        )
    fleet = Fleet(3, dsn, schema, tmp_path)
    with fleet.running(BEGIN):
        everything = len(DECLARED) + len(PUT)
        there = "select count(*) = %s from schedule where next_at > %s"
        await eventually(lambda: db.execute(there, (everything, BEGIN)).fetchone() == (True,))
        await live_through(fleet, db)
        fleet.go_on()
        fleet.travel(LAST)
        await eventually(lambda: looked_at(db, LAST))
        await outlast_back_offs(fleet, db)
    assert fleet.kills >= 15
    assert fleet.stops >= 30
    assert len(fleet.firers()) > 3, "also those that came in the place of the dead"

    made = Counter(
        db.execute("select headers->>'schedule', headers->>'occurrence' from jobs").fetchall()
    )
    expected = {(s.name, written(moment)) for s in (*DECLARED, *PUT) for moment in due(s)}
    assert expected - made.keys() == set(), "missing"
    assert made.keys() - expected == set(), "nobody ordered these"
    assert [each for each, count in made.items() if count > 1] == [], "twice"
    assert len(expected) > 4_000
    states = db.execute("select distinct state from jobs").fetchall()
    assert states == [("succeeded",)]
