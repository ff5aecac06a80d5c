"""The behaviours (P) and defects (PD) of pg_task that no other folder proves."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway import Headway
from headway.errors import DatabaseError, DatabaseUnavailable, SchemaMismatch
from headway.store.connections.connect import Target
from headway.store.connections.engine_connection import EngineConnection
from headway.store.connections.listen import Listener
from headway.store.statement import Statement
from headway.store.statements import jobs
from headway.store.statements.jobs import Settled
from tests.reference.scenes import NOWHERE, OURS, backends, refuse, work_of
from tests.store.store import Store, ask, shares, verdict
from tests.support import DEADLINE, eventually


def test_pd2_claims_and_ends_wake_nobody(store: Store, worker: int) -> None:
    """pg_task: each claim and each end wakes every worker. Headway: only who waits for it."""
    for _ in range(3):
        store.enqueue()
    with store.listening(store.target.work_channel, store.target.done_channel) as heard:
        for claim in store.claim(worker):
            assert store.settle(claim, "succeed")
        assert heard() == []


async def test_pd5_a_lost_claim_stops_neither_its_worker_nor_other_jobs(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """pg_task: the worker ends and aborts all its steps. Headway: that verdict counts for nothing."""
    running, release = asyncio.Semaphore(0), asyncio.Event()

    @hw.task
    async def work() -> str:
        running.release()
        await release.wait()
        return "its own"

    worker = start()
    lost, innocent = await work.enqueue(), await work.enqueue()
    for _ in range(2):
        await asyncio.wait_for(running.acquire(), DEADLINE)
    settled = db.execute(
        "select complete(id, claim, '\"another\"') from job where id = %s", [lost.id]
    )
    assert settled.fetchone() == (True,)
    release.set()
    assert await innocent.result(timeout=DEADLINE) == "its own"
    assert await lost.result(timeout=DEADLINE) == "another"
    assert await (await work.enqueue()).result(timeout=DEADLINE) == "its own"
    assert not worker.done()


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
        pool = await app._session.client.open()
        async with pool.connection() as own:
            await last.using(conn=own).enqueue()
            await asyncio.wait_for(finished.wait(), DEADLINE)
        worker.stop()
        await running


async def test_p21_an_error_while_looking_for_work_surfaces(store: Store, worker: int) -> None:
    """pg_task: fetch returns the error. Headway: SchemaMismatch where the table is gone."""
    store.eyes.execute("alter table job rename to elsewhere")
    link = EngineConnection(store.target)
    with pytest.raises(SchemaMismatch, match="job"):
        await link.run(jobs.claim(worker, shares([ask()], 1), store.now))
    await link.close()


@pytest.mark.parametrize(
    "change", ["state = 'x'", "worker_id = 1", "state = 'x', worker_id = null", "state = 'q'"]
)
def test_p25_a_row_names_a_worker_if_and_only_if_it_runs(store: Store, change: str) -> None:
    """pg_task: a CHECK ties both lease columns. Headway: one ties state and worker (I2)."""
    store.enqueue()
    with pytest.raises(psycopg.errors.CheckViolation):
        store.eyes.execute(sql.SQL(f"update job set {change}"))


def _moves(store: Store, worker: int, move: str) -> tuple[Statement[Any], str, str]:
    """A move of a job, and the write of it that the server will refuse."""
    if move == "claim":
        store.enqueue()
        return jobs.claim(worker, shares([ask()], 1), store.now), "job", "update"
    claim = store.held(worker, step="one" if move == "advance" else "")
    if move == "retry":
        settled = [Settled(claim, verdict("retry"))]
        return jobs.requeue(store.target, 0, settled, store.now), "job", "update"
    if move == "advance":
        settled = [Settled(claim, verdict("advance"))]
        return jobs.advance(store.target, settled, store.now), "attempt_other", "insert"
    settled = [Settled(claim, verdict("succeed" if move == "succeed" else "fail"))]
    table = "attempt_other" if move == "fail" else "archive_other"
    return jobs.finish(store.target, settled, store.now), table, "insert"


@pytest.mark.parametrize("move", ["claim", "retry", "advance", "succeed", "fail"])
async def test_p22_a_move_that_the_server_refuses_surfaces_and_loses_nothing(
    store: Store, worker: int, move: str
) -> None:
    """pg_task: each write returns the database's error. Headway: DatabaseError, and the job is held or
    ready as before."""
    statement, table, event = _moves(store, worker, move)
    refuse(store, table, event)
    before, link = store.everything(), EngineConnection(store.target)
    with pytest.raises(DatabaseError):
        await link.run(statement)
    assert store.everything() == before
    await link.close()
