"""The server crashes and comes back, under load."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway import Headway
from tests.crash.count import finished, registered, unfinished
from tests.crash.producers import producing
from tests.crash.server import OwnServer
from tests.support import eventually


@pytest.fixture
def dsn(own_server: OwnServer) -> str:
    """These tests have a server to themselves."""
    return own_server.dsn


def _connect(dsn: str, schema: str) -> psycopg.Connection[Any]:
    conn = psycopg.connect(dsn, autocommit=True)
    conn.execute(sql.SQL("set search_path = {}").format(sql.Identifier(schema)))
    return conn


@pytest.mark.slow
async def test_g3_a_server_restart_under_load_loses_and_doubles_nothing(
    app: Headway, own_server: OwnServer, dsn: str, schema: str, worker
) -> None:
    """Twice by a crash, once in an orderly way; producers and workers go on without being restarted."""
    workers = [worker(concurrency=20) for _ in range(2)]
    async with producing(app, 4) as producers:
        with _connect(dsn, schema) as db:
            await eventually(lambda: registered(db) == 2)
        for how in (signal.SIGQUIT, signal.SIGQUIT, signal.SIGINT):
            with _connect(dsn, schema) as db:
                done = finished(db)
                await eventually(lambda db=db, done=done: finished(db) > done)
            await asyncio.to_thread(own_server.stop, how)
            met = [each.output().count("check that the server is up") for each in workers]
            for each, before in zip(workers, met, strict=True):
                await eventually(
                    lambda w=each, n=before: w.output().count("check that the server is up") > n
                )
            await asyncio.to_thread(own_server.start)
    with _connect(dsn, schema) as db:
        await eventually(lambda: unfinished(db) == 0)
        producers.assert_kept(db)
        assert len(producers.made) > 0
    assert [each.process.poll() for each in workers] == [None, None]


@pytest.mark.slow
async def test_g1_a_crash_of_the_server_keeps_what_was_committed_and_nothing_else(
    app: Headway, own_server: OwnServer, dsn: str, schema: str
) -> None:
    echo = app.tasks["echo"]
    open_ = await psycopg.AsyncConnection.connect(dsn)
    committed = await echo.enqueue(1)
    async with await psycopg.AsyncConnection.connect(dsn) as closed:
        also = await echo.using(conn=closed).enqueue(2)
    uncommitted = await echo.using(conn=open_).enqueue(3)
    assert uncommitted.id not in (committed.id, also.id)
    await asyncio.to_thread(own_server.restart, signal.SIGQUIT)
    with pytest.raises(psycopg.OperationalError):
        await open_.commit()
    await open_.close()
    with _connect(dsn, schema) as db:
        found = db.execute("select id, label(state) from job order by id").fetchall()
    assert found == [(committed.id, "ready"), (also.id, "ready")]


@pytest.mark.slow
async def test_g1_a_producer_killed_before_its_commit_leaves_no_job(
    app: Headway, dsn: str, schema: str
) -> None:
    """Its connection dies with it, as the server sees it: the backend is ended in mid-transaction."""
    echo = app.tasks["echo"]
    dying = await psycopg.AsyncConnection.connect(dsn)
    await echo.using(conn=dying).enqueue(1)
    with _connect(dsn, schema) as db:
        db.execute("select pg_terminate_backend(%s)", (dying.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            await dying.commit()
        kept = await echo.enqueue(2)
        assert db.execute("select id from job").fetchall() == [(kept.id,)]
    await dying.close()
