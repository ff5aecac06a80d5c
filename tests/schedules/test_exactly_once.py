"""Each occurrence fires once, however many workers try."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Schedule
from headway.core import cron
from headway.core.clock import Clock
from headway.core.firing import written
from tests.schedules.travel import NOON, Travel
from tests.support import Running, eventually


@pytest.mark.slow
async def test_each_occurrence_fires_once_with_several_workers_at_it(
    hw: Headway, travel: Travel, start: Callable[..., Running]
) -> None:
    """The leader is not alone: all workers fire, all the time."""
    specs = ["* * * * *", "*/7 * * * *[Asia/Kathmandu]", "@every 90s", "@hourly"]
    ran: Counter[str] = Counter()

    @hw.task(schedule=[Schedule(spec, name=spec, catch_up="all") for spec in specs])
    async def report(ctx: Context) -> None:
        ran[f"{ctx.headers['schedule']} {ctx.headers['occurrence']}"] += 1

    for _ in range(4):
        start(poll="5ms", poll_alone="5ms", lease="1000d")
    await eventually(lambda: len(travel.names()) == len(specs))
    expected = list[str]()
    for step in range(1, 31):
        travel.on("2m")
        expected = [
            f"{spec} {written(moment)}"
            for spec in specs
            for moment in cron.parse(spec).between(NOON, NOON + step * timedelta(minutes=2), NOON)
        ]
        await _counted(ran, len(expected))
    assert len(expected) > 100
    assert ran == Counter(expected)
    assert len(travel.made()) == len(expected)


async def _counted(ran: Counter[str], most: int) -> None:
    await eventually(lambda: len(ran) >= most)


async def test_workers_of_a_clock_of_their_own_agree_all_the_same(
    hw: Headway, travel: Travel, another: Callable[..., Headway]
) -> None:
    """One is an hour behind: what another fired is not fired again by it."""
    for app in (hw, slow := another()):

        @app.task(name="report", schedule=Schedule("@hourly", catch_up="all"))
        async def report() -> None: ...

    await travel.run()
    await travel.run("15:00")
    slow._session.clock = Clock(NOON + timedelta(hours=2))
    await slow.run_until_idle()
    assert travel.made() == ["13:00", "14:00", "15:00"]
    await travel.run("16:00")
    assert travel.made() == ["13:00", "14:00", "15:00", "16:00"]


async def test_what_is_fired_and_where_the_schedule_stands_commit_together(
    hw: Headway,
    travel: Travel,
    db: psycopg.Connection[Any],
    start: Callable[..., Running],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While the server refuses its jobs, a schedule does not move; later, nothing is missing. Others go
    on meanwhile."""

    @hw.task(schedule=Schedule("@hourly", catch_up="all"))
    async def report() -> None: ...

    @hw.task(schedule=Schedule("@hourly", name="z", catch_up="all"))
    async def other() -> None: ...

    await travel.run()
    before = db.execute("select done_until, next_at from schedule where name = 'report'").fetchone()
    db.execute("alter table job add constraint not_today check (task <> 'report') not valid")
    travel.to("14:00")
    start(lease="1000d")
    await eventually(lambda: "schedule report could not be fired: " in caplog.text)
    await eventually(lambda: travel.made("z") == ["13:00", "14:00"])
    after = db.execute("select done_until, next_at from schedule where name = 'report'").fetchone()
    assert after == before
    assert travel.made("report") == []
    # From a thread, because it may wait for the worker.
    await asyncio.to_thread(db.execute, "alter table job drop constraint not_today")
    await eventually(lambda: travel.made("report") == ["13:00", "14:00"])
    assert travel.made("z") == ["13:00", "14:00"]
