"""pg_task's tests of its listener, P62 to P70: what ends it, what wakes a worker, what stops one."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import DatabaseError, ResultTimeout
from tests.reference.scenes import OURS, backends, work_of
from tests.support import DEADLINE, eventually


async def test_p62_closing_an_app_ends_its_listener(
    dsn: str, schema: str, db: psycopg.Connection[Any]
) -> None:
    """pg_task: dropping the listener aborts its task. Headway: close does, connection and all."""
    async with Headway(dsn, schema=schema) as app:
        with pytest.raises(ResultTimeout):
            await (await work_of(app).enqueue()).result(timeout=0.01)
        await eventually(lambda: backends(db, "headway"))
    await eventually(lambda: not backends(db, "headway", OURS))
    assert not [task for task in asyncio.all_tasks() if "headway" in task.get_name()]


async def test_p63_a_listener_that_is_replaced_leaves_nothing_behind(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """pg_task: replacing it aborts the old task. Headway: a worker has one listening connection."""
    work_of(hw)
    start()
    (pid,) = await eventually(lambda: backends(db, "headway worker %"))
    for _ in range(3):
        db.execute("select pg_terminate_backend(%s)", (pid,))
        (pid,) = await eventually(lambda old=pid: set(backends(db, "headway worker %")) - {old})
    assert backends(db, "headway worker %") == [pid]


async def test_p64_a_worker_that_stopped_has_no_connection(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """pg_task: shutdown aborts the listener. Headway: a stopped worker has no connection left."""
    work_of(hw)
    worker = start()
    await eventually(lambda: backends(db, "headway worker %"))
    await worker.stop()
    await eventually(lambda: not backends(db, "headway worker %", OURS))


async def test_p65_an_enqueue_wakes_an_idle_worker(hw: Headway, start: Any) -> None:
    """pg_task: an insert wakes. Headway: one notification per queue of an enqueue does."""
    work = work_of(hw)
    start(poll="1h")
    for number in range(3):
        assert await (await work.enqueue(number)).result(timeout="60s") == number


async def test_p66_a_notification_from_another_session_wakes(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """pg_task: a foreign notification wakes. Headway: whoever inserts and notifies is heard."""
    work = work_of(hw)
    start(poll="1h")
    await (await work.enqueue()).result(timeout="60s")
    with db.transaction():
        row = db.execute(
            "insert into job (id, run_at, created_at, max_attempts, state, queue, task, input) "
            "values (gen_random_uuid(), now(), now(), 1, 'r', 'default', 'work', '{\"number\": 9}') "
            "returning id"
        ).fetchone()
        db.execute("select pg_notify(%s, 'ready 0 default')", (hw.session.target.work_channel,))
    assert row is not None
    assert await hw.job(row[0]).result(timeout="60s") == 9


async def test_p67_a_job_made_ready_again_wakes(hw: Headway, start: Any) -> None:
    """pg_task: an update wakes as an insert does. Headway: so do a retry on request and a resume."""
    work = work_of(hw)
    await work.using(queue="paused").enqueue(1)
    scheduled = await work.using(delay="1h").enqueue(2)
    await hw.queues.pause("paused")
    start(poll="1h", queues={"default": 1, "paused": 1})
    await (await work.enqueue()).result(timeout="60s")
    assert await scheduled.retry()
    assert await scheduled.result(timeout="60s") == 2
    waiting = await work.using(queue="paused").enqueue(3)
    await hw.queues.resume("paused")
    assert await waiting.result(timeout="60s") == 3


async def test_p68_a_stop_is_heeded_also_by_a_worker_that_starts_after_it(
    hw: Headway, start: Any
) -> None:
    """pg_task: 'stop_worker' wakes a later subscriber. Headway: a stop is for one worker, and kept."""
    work_of(hw)
    early = hw.worker()
    early.stop()
    assert (await asyncio.wait_for(early.run(), DEADLINE)).total == 0
    idle = start(poll="1h")
    await eventually(lambda: idle.worker.id)
    assert (await asyncio.wait_for(idle.stop(), DEADLINE)).total == 0


async def test_p69_an_app_that_was_closed_opens_again_when_used(hw: Headway) -> None:
    """pg_task: a closed pool surfaces as an error. Headway: closing is not for ever."""
    work = work_of(hw)
    await work.enqueue()
    await hw.close()
    job = await work.enqueue(4)
    await hw.run_until_idle()
    assert await job.result(timeout="60s") == 4


async def test_p70_an_error_does_not_outlive_its_cause(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """pg_task: the error is kept for all who ask later. Headway: each call finds out for itself."""
    work = work_of(hw)
    db.execute("alter table migration rename to elsewhere")
    for _ in range(2):
        with pytest.raises(DatabaseError, match="headway migrate"):
            await work.enqueue()
    db.execute("alter table elsewhere rename to migration")
    assert (await (await work.enqueue()).status()).state == "ready"
