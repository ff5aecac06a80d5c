"""pg_task's tests of its listener, P52 to P61: hearing, and losing the connection.

pg_task's listener gives up on a lasting error and keeps it for whoever asks. Headway's never gives
up: it says so in the log, its worker polls, and it is back when the server is.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.engine.notify import results as results_module
from headway.errors import DatabaseError, DatabaseUnavailable, ResultTimeout
from headway.store.connect import Target
from headway.store.listen import Deaf, Listener
from tests.reference.scenes import NOWHERE, OURS, backends, work_of
from tests.support import DEADLINE, eventually


async def test_p52_a_connection_that_cannot_be_made_surfaces() -> None:
    """pg_task: ListenerConnect. Headway: DatabaseUnavailable."""
    with pytest.raises(DatabaseUnavailable):
        await Listener(Target(NOWHERE, "headway"), "headway_work").open()


async def test_p53_a_refused_listen_surfaces(dsn: str, db: psycopg.Connection[Any]) -> None:
    """pg_task: ListenerListen. Headway: DatabaseError, and the connection is closed again."""
    target = Target(dsn, "headway").named("refused listener")
    with pytest.raises(DatabaseError, match="identifier"):
        await Listener(target, "").open()
    await eventually(lambda: not backends(db, "refused listener", OURS))


async def test_p54_who_waits_for_a_result_gets_it_though_the_listener_is_lost(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """pg_task: a terminal error wakes who waits. Headway: a lost listener does, and they look."""
    release = asyncio.Event()

    @hw.task
    async def held() -> str:
        await release.wait()
        return "done"

    start()
    waiting = asyncio.create_task((await held.enqueue()).result(timeout="60s"))
    await eventually(lambda: db.execute("select job_id from awaited").fetchall())
    (pid,) = await eventually(lambda: backends(db, "headway"))
    db.execute("select pg_terminate_backend(%s)", (pid,))
    release.set()
    assert await waiting == "done"


async def test_p56_a_wait_ends_when_it_is_told(
    hw: Headway, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pg_task: wait returns on a wake-up. Headway: the wait for a result does, on a notification."""
    monkeypatch.setattr(results_module, "patience", lambda hears, tries: 3600)
    job = await work_of(hw).enqueue()
    results = await hw.session.results()
    waiting = asyncio.create_task(results.wait(str(job.id), 0, None))
    await asyncio.sleep(0)
    db.execute("select pg_notify(%s, %s)", (hw.session.target.done_channel, str(job.id)))
    await asyncio.wait_for(waiting, DEADLINE)


async def test_p57_a_wait_ends_when_its_time_is_over(hw: Headway) -> None:
    """pg_task: wait returns on timeout. Headway: ResultTimeout; the job goes on."""
    job = await work_of(hw).enqueue()
    with pytest.raises(ResultTimeout, match="did not finish within 50ms"):
        await job.result(timeout="50ms")
    with pytest.raises(ResultTimeout):
        await asyncio.to_thread(job.result_sync, timeout="50ms")
    assert (await job.status()).state == "ready"


async def test_p58_a_pool_without_a_free_connection_stops_no_listener(
    dsn: str, schema: str
) -> None:
    """pg_task: a pool timeout is not terminal. Headway: the engine never draws from the pool."""
    async with Headway(dsn, schema=schema, pool_size=1) as app:
        work, finished = work_of(app), asyncio.Event()

        @app.task
        async def last() -> None:
            finished.set()

        worker = app.worker(poll="1h")
        running = asyncio.create_task(worker.run())
        await (await work.enqueue()).result(timeout="60s")
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await work.using(conn=conn).enqueue()  # the first such call asks which database this is
        pool = await app.session.client.open()
        async with pool.connection() as own:
            await last.using(conn=own).enqueue()
            await asyncio.wait_for(finished.wait(), DEADLINE)
        worker.stop()
        await running


async def test_p59_a_worker_that_hears_nothing_any_more_polls(
    hw: Headway, start: Any, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    """pg_task: the error is kept and ends the worker. Headway: it polls alone, without delay."""
    work = work_of(hw)
    start(poll="1h", poll_alone="50ms", lease="1h")
    await (await work.enqueue()).result(timeout="60s")
    (pid,) = await eventually(lambda: backends(db, "headway worker %"))

    async def deaf(listener: Listener) -> None:
        raise Deaf("as behind a transaction pooler")

    monkeypatch.setattr(Listener, "open", deaf)
    db.execute("select pg_terminate_backend(%s)", (pid,))
    async with Headway(dsn, schema=hw.session.target.schema, notify=False) as silent:
        job = await work_of(silent).enqueue(7)
        assert await job.result(timeout="60s") == 7


async def test_p59_a_worker_that_cannot_listen_polls_for_what_is_due_later_too(
    dsn: str, schema: str
) -> None:
    """pg_task: no listener, no worker. Headway: polling alone finds new moments as well."""
    async with Headway(dsn, schema=schema, notify=False) as silent:
        work = work_of(silent)
        worker = silent.worker(poll="1h", poll_alone="50ms", lease="1h")
        running = asyncio.create_task(worker.run())
        await (await work.enqueue()).result(timeout="60s")
        assert await (await work.using(delay=0.1).enqueue(7)).result(timeout="60s") == 7
        worker.stop()
        await running


async def test_p60_a_listener_resumes_after_its_connection_broke(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """pg_task: resumes after recovery. Headway: the same, for every connection of a worker."""
    work = work_of(hw)
    start(poll="1h")
    await (await work.enqueue()).result(timeout="60s")
    before = await eventually(lambda: backends(db, "headway worker %"))
    for pid in backends(db, "headway worker %", OURS):
        db.execute("select pg_terminate_backend(%s)", (pid,))
    assert await (await work.enqueue(1)).result(timeout="60s") == 1
    after = await eventually(lambda: backends(db, "headway worker %"))
    assert not set(before) & set(after)
    assert await (await work.enqueue(2)).result(timeout="60s") == 2


async def test_p61_a_server_that_refuses_connections_ends_no_worker(
    server_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """pg_task: terminal if reconnecting fails. Headway: it tries again until it succeeds."""
    name = f"headway_p61_{os.getpid()}"
    own_dsn = psycopg.conninfo.make_conninfo(server_dsn, dbname=name)
    async with await psycopg.AsyncConnection.connect(server_dsn, autocommit=True) as admin:
        await admin.execute(f"drop database if exists {name} with (force)")
        await admin.execute(f"create database {name}")
        app = Headway(own_dsn)
        await app.migrate()
        work, worker = work_of(app), app.worker(poll="1h", lease="2s")
        running = asyncio.create_task(worker.run())
        await (await work.enqueue()).result(timeout="60s")
        await app.close()

        await admin.execute(f"alter database {name} allow_connections false")
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
        )
        await eventually(lambda: "not currently accepting connections" in caplog.text)
        assert not running.done()
        await admin.execute(f"alter database {name} allow_connections true")

        assert await (await work.enqueue(5)).result(timeout="60s") == 5
        worker.stop()
        await running
        await app.close()
        await admin.execute(f"drop database {name} with (force)")
