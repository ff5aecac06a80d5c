"""A fault of one schedule concerns that one alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import ConfigError
from tests.schedules.travel import Travel, at
from tests.support import Running, eventually


async def test_a_spec_that_cannot_be_read_does_not_stop_the_others(
    hw: Headway, travel: Travel, db: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A newer version, or a machine with other zones, put it."""

    @hw.task
    async def report() -> None: ...

    for name in ("a", "b", "c"):
        await hw.schedules.put(name, report, "@hourly")
    db.execute("update schedule set spec = '@daily[Moon/Tycho]' where name = 'a'")
    await travel.run("13:00")
    assert travel.made("a") == []
    assert travel.made("b") == travel.made("c") == ["13:00"]
    assert "schedule a is left alone for now: " in caplog.text
    await travel.run("14:00")
    assert travel.made("b") == ["13:00", "14:00"]


async def test_a_spec_that_can_be_read_again_loses_nothing(
    hw: Headway, travel: Travel, db: psycopg.Connection[Any]
) -> None:
    @hw.task
    async def report() -> None: ...

    await hw.schedules.put("a", report, "@hourly", catch_up="all")
    db.execute("update schedule set spec = 'a newer kind' where name = 'a'")
    await travel.run("13:00")
    await travel.run("13:00:59")
    db.execute("update schedule set spec = '@hourly' where name = 'a'")
    await travel.run("13:01")
    assert travel.made() == ["13:00"]


async def test_a_spec_that_cannot_be_read_is_listed_all_the_same(
    hw: Headway, travel: Travel, db: psycopg.Connection[Any]
) -> None:
    @hw.task
    async def report() -> None: ...

    await hw.schedules.put("a", report, "@hourly")
    await travel.run("13:00")
    db.execute("update schedule set spec = 'a newer kind' where name = 'a'")
    (found,) = await hw.schedules.list()
    assert (found.spec, found.next_at, found.last_at) == ("a newer kind", None, at("13:00"))
    with pytest.raises(ConfigError, match="'a newer kind'"):
        await hw.schedules.next("a")


async def test_a_task_that_no_worker_knows_shows_in_its_jobs(
    hw: Headway, travel: Travel, another: Callable[..., Headway], db: psycopg.Connection[Any]
) -> None:
    @hw.task
    async def gone() -> None: ...

    await hw.schedules.put("nightly", gone, "@hourly")
    later = another()

    @later.task
    async def other() -> None: ...

    worker = Running(later.worker(grace="1s"))
    try:
        travel.to("13:00")
        await eventually(lambda: travel.made() == ["13:00"])
        query = "select explain(id) from jobs"
        reasons = await eventually(lambda: _knows(db.execute(query).fetchall()))
        assert reasons == "no live worker knows task gone; deploy an app that defines it"
    finally:
        await worker.stop()


def _knows(rows: list[Any]) -> str:
    words = "\n".join(str(row[0]) for row in rows)
    return words if "knows" in words else ""


async def test_more_schedules_than_are_read_at_once_all_fire(
    hw: Headway, travel: Travel, db: psycopg.Connection[Any]
) -> None:
    @hw.task
    async def report() -> None: ...

    await hw.schedules.put("s", report, "@hourly")
    db.execute(
        """insert into schedule (name, task, spec, job, catch_up, most, overlap, since, done_until,
                                 next_at, created_at, changed_at)
           select name || n, task, spec, job, catch_up, most, overlap, since, done_until,
                  next_at, created_at, changed_at
           from schedule, generate_series(1, 249) n"""
    )
    await travel.run("13:00")
    assert travel.made() == ["13:00"] * 250
    assert set(travel.states()) == {"succeeded"}


async def test_an_open_transaction_that_has_a_unique_key_holds_up_that_schedule_alone(
    hw: Headway,
    dsn: str,
    travel: Travel,
    db: psycopg.Connection[Any],
    start: Callable[..., Running],
    caplog: pytest.LogCaptureFixture,
) -> None:
    @hw.task(unique="nightly")
    async def report() -> None: ...

    @hw.task
    async def other() -> None: ...

    await hw.schedules.put("a", report, "@hourly")
    await hw.schedules.put("b", other, "@hourly")
    with psycopg.connect(dsn) as conn:
        report.using(conn=conn).enqueue_sync()
        travel.to("13:00")
        start()
        await eventually(lambda: travel.made("b") == ["13:00"])
        await eventually(lambda: "schedule a could not be fired: " in caplog.text)
        assert travel.made("a") == []
        conn.rollback()
    await eventually(lambda: travel.made("a") == ["13:00"])
