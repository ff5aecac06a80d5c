"""RD5, the defects of roadster's periodic jobs: Headway has none of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway, Schedule, preview
from headway.core.clock import Clock
from tests.reference.scenes import refuse
from tests.store.store import Store
from tests.support import DEADLINE, Running, eventually

NOON = datetime(2040, 6, 1, 12, tzinfo=UTC)

_LEFT_BEHIND = """
insert into schedule (name, owner, declared, task, spec, job, catch_up, most, overlap, since, done_until,
                      created_at, changed_at)
select 'left behind', %s, true, 'work', '@daily', '{}', 'one', 1, 'allow', t, t, t, t
from (select now()) n(t)"""


async def _work(number: int = 0) -> int:
    return number


@asynccontextmanager
async def _instance(
    dsn: str, schema: str, *, schedule: Any = None, **options: Any
) -> AsyncIterator[Headway]:
    """An app whose task has this schedule, or none."""
    async with Headway(dsn, schema=schema, **options) as app:
        app.task(name="work", schedule=schedule)(_work)
        yield app


def _names(db: psycopg.Connection[Any]) -> list[str]:
    return [name for (name,) in db.execute("select name from schedules order by name").fetchall()]


async def _cleaned(app: Headway, db: psycopg.Connection[Any], stack: AsyncExitStack) -> Running:
    """A worker of this app, once it has cleaned up; it is stopped with the stack.

    What goes, goes in one statement: when the one that nobody declares is gone, so are all others.
    """
    db.execute(_LEFT_BEHIND, [app.settings.app.name or ""])
    running = Running(app.worker(grace="1s"))
    stack.push_async_callback(running.stop)
    await eventually(lambda: running.worker.id and "left behind" not in _names(db))
    return running


async def test_rd5_what_another_instance_declares_is_left_alone_while_that_lives(
    dsn: str, schema: str, db: psycopg.Connection[Any]
) -> None:
    """Roadster: cleaning removes whatever this instance did not register. Headway: a worker that lives
    says what it declares, and nobody removes that; once it is gone, it goes."""
    async with (
        _instance(dsn, schema, schedule=Schedule("@daily", "old")) as older,
        _instance(dsn, schema, schedule=Schedule("@daily", "new")) as newer,
        AsyncExitStack() as stack,
    ):
        old = await _cleaned(older, db, stack)
        await _cleaned(newer, db, stack)
        assert _names(db) == ["new", "old"]
        await old.stop()
        await _cleaned(newer, db, stack)
        assert _names(db) == ["new"]


@pytest.mark.parametrize("clean_up", ["stale", "all"])
async def test_rd5_who_declares_nothing_removes_nothing_of_others(
    dsn: str, schema: str, db: psycopg.Connection[Any], clean_up: Any
) -> None:
    """Roadster: an instance with no periodic jobs deletes all of them. Headway: not those of another
    app, nor what was put at run time, by whatever rule."""
    async with (
        _instance(dsn, schema, schedule="@daily", name="billing") as other,
        _instance(dsn, schema, name="shop", schedules=clean_up) as empty,
        AsyncExitStack() as stack,
    ):
        await other.run_until_idle()
        await empty.schedules.put("by hand", "work", "@hourly")
        await _cleaned(empty, db, stack)
        assert _names(db) == ["by hand", "work"]


async def test_rd5_an_occurrence_and_the_move_to_the_next_are_one_write(
    dsn: str,
    schema: str,
    store: Store,
    db: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Roadster: a job is sent, then the entry is put off; a crash in between sends it again. Headway:
    both in one transaction, so that one that fails leaves neither."""
    fired = "select count(*) from schedules where last_at is not null"
    async with _instance(dsn, schema, schedule="0 * * * *") as hw:
        hw.session.clock = Clock(NOON - timedelta(minutes=1))
        await hw.run_until_idle()
        hw.session.clock = Clock(NOON)
        refuse(store, "schedule", "update")
        running = Running(hw.worker(grace="1s", queues={"elsewhere": 1}))
        try:
            await eventually(lambda: "schedule work could not be fired" in caplog.text)
            assert db.execute(fired).fetchone() == (0,)
            assert db.execute("select count(*) from jobs").fetchone() == (0,)
            db.execute("drop trigger refuse on schedule")
            await eventually(lambda: db.execute(fired).fetchone() == (1,))
        finally:
            await running.stop()
        written = db.execute("select j.xmin = s.xmin from job j, schedule s")
        assert written.fetchall() == [(True,)]


def test_rd5_a_schedule_has_a_zone() -> None:
    """Roadster: UTC only. Headway: any zone, with the hour that a person there means, all year."""
    march = preview(
        "0 8 * * *[Europe/Berlin]", after=datetime(2040, 3, 24, 12, tzinfo=UTC), count=2
    )
    assert [moment.isoformat() for moment in march] == [
        "2040-03-25T08:00:00+02:00",
        "2040-03-26T08:00:00+02:00",
    ]
    before = preview(
        "0 8 * * *[Europe/Berlin]", after=datetime(2040, 3, 23, 12, tzinfo=UTC), count=1
    )
    assert before[0].isoformat() == "2040-03-24T08:00:00+01:00"


async def test_rd5_a_schedule_fires_without_being_polled_for(hw: Headway, start: Any) -> None:
    """Roadster: up to ten seconds late. Headway: the worker on duty sleeps until exactly then, and hears
    of what is put meanwhile."""
    hw.task(name="work")(_work)
    worker = start(poll="1h")
    await eventually(lambda: worker.worker.id)
    await hw.schedules.put("soon", "work", "@every 1s", input={"number": 3})

    async def fired() -> Any:
        status = await hw.schedules.get("soon")
        return status is not None and status.last_job

    job_id = await eventually(fired)
    await hw.schedules.remove("soon")
    assert await hw.job(job_id).result(timeout=DEADLINE) == 3
