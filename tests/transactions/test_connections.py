"""The connections of handlers: how many, which, and in whose name."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Key
from tests.crash.pooler import Pooler
from tests.support import eventually
from tests.transactions.handlers import KINDS, WRITE, Gate, effects, task

Db = psycopg.Connection[Any]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_more_handlers_than_connections_take_turns(hw: Headway, db: Db, kind: str) -> None:
    """Thirty at once for two connections; those that wait hold nothing the others need."""
    counting = threading.Lock()
    inside, most = 0, 0

    def count(by: int) -> None:
        nonlocal inside, most
        with counting:
            inside += by
            most = max(most, inside)

    async def on_the_loop(ctx: Context, n: int) -> None:
        count(1)
        await ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, str(n)))
        count(-1)

    def in_a_thread(ctx: Context, n: int) -> None:
        count(1)
        ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, str(n)))
        count(-1)

    pay = hw.task(transaction=True, concurrency_key=Key(lambda n: f"k{n % 5}", limit=3))(
        on_the_loop if kind == "async" else in_a_thread
    )
    await pay.enqueue_many({"n": n} for n in range(60))
    report = await hw.run_until_idle(concurrency=30, transactions=2)
    assert report.settled == {"succeed": 60}
    assert effects(db) == sorted((1, str(n)) for n in range(60))
    assert most <= 2


async def test_a_handler_that_waits_for_a_connection_can_be_cancelled_and_drained(
    hw: Headway, db: Db, start
) -> None:
    gate = Gate()
    pay = task(hw, "async", gate=gate)
    first = await pay.enqueue()
    running = start(transactions=1, grace="60s")
    await asyncio.to_thread(gate.began.wait, 60)
    waits, drained = await pay.enqueue(), await pay.enqueue()
    await eventually(lambda: db.execute("select count(worker_id) from job").fetchone() == (3,))
    assert await waits.cancel()
    await eventually(lambda: db.execute("select count(*) from archive").fetchone() == (1,))
    stopping = asyncio.create_task(running.stop())
    await eventually(
        lambda: db.execute("select count(*) from job where state = 'r'").fetchone() == (1,)
    )
    gate.open.set()
    await stopping
    states = [(await job.status()).state for job in (first, waits, drained)]
    assert states == ["succeeded", "cancelled", "ready"]
    assert (await drained.status()).attempt == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kept_connection_that_the_server_has_closed_costs_nobody_an_attempt(
    hw: Headway, db: Db, start, kind: str
) -> None:
    pids: list[int] = []
    pay = task(hw, kind, lambda ctx: pids.append(ctx.conn.info.backend_pid))
    start()
    await (await pay.enqueue()).result(timeout="60s")
    assert db.execute("select pg_terminate_backend(%s, 60000)", pids).fetchone() == (True,)
    job = await pay.enqueue()
    await job.result(timeout="60s")
    assert pids[0] != pids[1]
    assert (effects(db), await job.attempts()) == ([(1, ""), (1, "")], [])


@pytest.mark.parametrize("kind", KINDS)
async def test_the_connections_bear_the_name_of_the_worker_s_lease(
    hw: Headway, db: Db, start, kind: str
) -> None:
    """By it the fleet ends the transactions of a worker that was given up (rescue.sql)."""
    named = "select application_name from pg_stat_activity where pid = %s"
    names: list[tuple[int, str]] = []

    def look(ctx: Context) -> None:
        row = db.execute(named, (ctx.conn.info.backend_pid,)).fetchone()
        assert row is not None
        names.append((running.worker.id, row[0]))

    pay = task(hw, kind, look)
    running = start(lease="6s")
    await (await pay.enqueue()).result(timeout="60s")
    old = running.worker.id
    db.execute("update worker set expires_at = now() - interval '1s'")
    await eventually(lambda: running.worker.id not in (0, old))
    await (await pay.enqueue()).result(timeout="60s")
    assert names[0][0] != names[1][0]
    schema = hw._session.target.schema
    assert [name for _, name in names] == [
        f"headway handlers of worker {id_} in {schema}" for id_, _ in names
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_through_a_pooler_effects_and_verdicts_are_one_all_the_same(
    dsn: str, schema: str, db: Db, kind: str
) -> None:
    with Pooler(dsn, size=6) as pooler:
        far = Headway(pooler.dsn, schema=schema)
        pay = task(far, kind, _fail_once)
        await pay.enqueue_many({"note": str(n)} for n in range(30))
        report = await far.run_until_idle(transactions=2, poll_alone="50ms")
        await far.close()
    assert report.settled == {"retry": 30, "succeed": 30}
    assert effects(db) == sorted((2, str(n)) for n in range(30))


def _fail_once(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise RuntimeError("not yet")
