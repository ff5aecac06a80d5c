"""Behind a transaction pooler everything works but LISTEN, and polling takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import DatabaseError
from headway.store.connections import engine_connection as links
from headway.store.connections.connect import Target, complete_dsn
from headway.store.connections.engine_connection import EngineConnection
from headway.store.connections.listen import Hearing, Listener, NotificationsBlocked, SyncListener
from headway.store.statement import Statement
from headway.store.statements import jobs
from tests.crash.count import assert_each_finished_once, unfinished
from tests.crash.pooler import Pooler
from tests.crash.producers import producing
from tests.crash.tasks import register
from tests.store.store import new_job
from tests.support import eventually


@pytest.fixture
def pooler(dsn: str) -> Iterator[Pooler]:
    with Pooler(dsn, size=4) as pooler:
        yield pooler


@pytest.fixture
async def pooled(pooler: Pooler, schema: str) -> AsyncIterator[Headway]:
    app = register(Headway(pooler.dsn, schema=schema))
    yield app
    await app.close()


@pytest.mark.parametrize("busy", [False, True])
async def test_a_listener_behind_a_pooler_knows_that_it_receives_nothing(
    pooler: Pooler, schema: str, busy: bool
) -> None:
    """Also when what it says to itself happens on the very connection that took its LISTEN."""
    target = Target(complete_dsn(pooler.dsn), schema)
    listener = Listener(target, target.work_channel or "")
    others = [await psycopg.AsyncConnection.connect(pooler.dsn) for _ in range(3 if busy else 0)]
    for other in others:
        await other.execute("select 1")  # holds its server connection
    with pytest.raises(NotificationsBlocked):
        await listener.open()
    for other in others:
        await other.close()


async def test_a_listener_with_a_connection_of_its_own_hears(dsn: str, schema: str) -> None:
    target = Target(complete_dsn(dsn), schema)
    listener = Listener(target, target.work_channel or "")
    await listener.open()
    heard = asyncio.ensure_future(anext(listener.heard()))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute("select pg_notify(%s, 'later')", (target.work_channel,))
    assert await asyncio.wait_for(heard, 60) == "later"
    await listener.close()


async def test_h5_the_engines_settings_hold_in_each_round_trip_and_not_beyond_it(
    pooler: Pooler, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled plans made claims a hundred times slower, and a scan that is slow puts off the next."""
    wanted = {
        "transaction_isolation": "read committed",
        "transaction_read_only": "off",
        "enable_seqscan": "off",
        "enable_memoize": "off",
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        "statement_timeout": "30s",
        "lock_timeout": "10s",
        "idle_in_transaction_session_timeout": "1min",
        "random_page_cost": "0.01",
    }
    show = "select " + ", ".join(f"current_setting('{name}')" for name in wanted)
    monkeypatch.setattr(links, "text", lambda name, schema: show)
    link = EngineConnection(Target(complete_dsn(pooler.dsn), schema))
    asking: Statement[Any] = Statement(
        "any", {}, lambda rows: dict(zip(wanted, rows[0], strict=True))
    )
    for _ in range(3):
        assert await link.run_all(asking, asking) == [wanted, wanted]
    before = pooler.transactions
    assert await link.run(asking) == wanted
    assert pooler.transactions == before + 1, "one round trip, one transaction"
    await link.close()

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        usual = await (await conn.execute(show)).fetchone()
    async with await psycopg.AsyncConnection.connect(pooler.dsn, autocommit=True) as conn:
        found = await (await conn.execute(show)).fetchone()
    assert found == usual, "the next client of the server connection has its own"


async def test_h5_what_the_server_refuses_leaves_no_transaction_open(
    pooler: Pooler, dsn: str, schema: str
) -> None:
    target = Target(complete_dsn(pooler.dsn), schema)
    link = EngineConnection(target)
    good = jobs.enqueue(target, [new_job()], None)
    with pytest.raises(DatabaseError):
        await link.run_all(good, jobs.enqueue(target, [new_job(priority=99_999)], None))
    conn = link._conn
    lanes = await link.run(jobs.lanes(["q"]))
    assert lanes.found == [], "all or nothing"
    assert link._conn is conn, "the connection is as good as before"
    await link.close()


async def test_h5_waiting_for_a_result_in_a_thread_remembers_that_the_pooler_blocks_notifications(
    pooled: Headway, app: Headway, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first wait proves it, and the next ones poll at once: no listener, no two seconds."""
    proofs: list[str] = []
    prove = SyncListener._prove

    def count(self: SyncListener, conn: Any, channel: str) -> None:
        proofs.append(channel)
        prove(self, conn, channel)

    monkeypatch.setattr(SyncListener, "_prove", count)
    start()
    for n in range(4):
        job = await pooled.tasks["echo"].using(delay="300ms").enqueue(n)
        assert await asyncio.to_thread(job.result_sync, "60s") == n
    assert len(proofs) == 1
    # Nor does an event loop prove again what a thread found out.
    opened: list[Listener] = []
    monkeypatch.setattr(Listener, "open", lambda self: opened.append(self))
    job = await pooled.tasks["echo"].using(delay="300ms").enqueue(5)
    assert await job.result(timeout="60s") == 5
    assert opened == []
    await asyncio.to_thread(pooled.close_sync)


async def test_h5_a_pooler_that_blocked_notifications_is_tried_again(
    pooler: Pooler, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hearing = Hearing()
    target = Target(complete_dsn(pooler.dsn), schema)
    with SyncListener(target, target.done_channel, hearing) as listener:
        assert not listener.hears
    assert 50 < hearing.blocked_for <= 60
    monkeypatch.setattr(hearing, "_blocked_until", 0.0)
    near = Target(complete_dsn(dsn), schema)
    with SyncListener(near, near.done_channel, hearing) as listener:
        assert listener.hears
    assert hearing.proven


@pytest.mark.slow
async def test_g3_workers_and_producers_behind_a_pooler_lose_and_double_nothing(
    pooled: Headway, pooler: Pooler, db: psycopg.Connection[Any], worker
) -> None:
    """Four server connections for two workers and a dozen producers; some jobs fail and are retried."""
    workers = [worker(dsn=pooler.dsn, SIDE_DSN=pooler.dsn) for _ in range(2)]
    async with producing(pooled, 12) as producers:
        await eventually(lambda: len(producers.made) > 500)
    await eventually(lambda: unfinished(db) == 0)
    producers.assert_kept(db)
    assert producers.unsure == []
    db.execute("delete from archive")

    flaky = await pooled.tasks["flaky"].enqueue_many({"n": n} for n in range(50))
    late = await pooled.tasks["echo"].using(delay="300ms").enqueue(1)
    assert await late.result(timeout="60s") == 1
    await eventually(lambda: unfinished(db) == 0)
    assert_each_finished_once(db, [*flaky, late])
    await eventually(lambda: all("polling instead" in each.output() for each in workers))
    assert [each.process.poll() for each in workers] == [None, None]
    assert pooler.transactions > len(producers.made), "they went another way"
