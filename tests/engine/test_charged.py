"""A fault is charged to whatever caused it (G8): the other verdicts, claims, sweeps and leases go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway import Context, Headway, Key, Retry
from headway.core.clock import Clock
from headway.engine.jobs import orphans
from headway.engine.keys import admission
from headway.engine.maintenance.sweeps import Sweep, Sweeper
from headway.errors import DatabaseError
from headway.store.connections.handler_transactions import HandlerTransactions
from headway.store.statements import jobs
from tests.support import Running, eventually

Db = psycopg.Connection[Any]


@pytest.mark.parametrize("place", [0, 150, 299])
async def test_r4_no_turn_rests_while_the_bad_verdict_is_looked_for(
    hw: Headway, db: Db, start: Callable[..., Running], place: int
) -> None:
    db.execute("alter table archive add constraint picky check (result <> '-1')")

    @hw.task
    async def echo(n: int) -> int:
        return n

    numbers = [-1 if n == place else n for n in range(300)]
    made = await echo.enqueue_many({"n": n} for n in numbers)
    worker = start(concurrency=400).worker
    await eventually(lambda: db.execute("select count(*) from job").fetchone() == (0,))
    assert worker._job_loop.track.status().failed_in_all == 0, (
        "a handled fault is not a failed turn"
    )
    states = [(await made[n].status()).state for n in (place, (place + 1) % 300)]
    assert states == ["failed", "succeeded"]
    assert worker.report.settled == {"succeed": 299, "fail": 1}


async def test_s1_a_verdict_that_is_given_up_releases_its_claim(
    hw: Headway, db: Db, start: Callable[..., Running]
) -> None:
    """The server stores no end of this task, whatever it is: its handler is not run again and again."""
    db.execute("alter table archive add constraint hates check (task <> 'cursed')")
    ran: list[str] = []

    @hw.task
    async def cursed() -> None:
        ran.append("cursed")

    @hw.task
    async def echo(n: int) -> int:
        return n

    bad = await cursed.enqueue()
    good = await echo.enqueue_many({"n": n} for n in range(20))
    start()
    assert [await job.result(timeout="60s") for job in good] == list(range(20))

    async def is_released() -> bool:
        return (await bad.status()).state == "scheduled"

    await eventually(is_released)
    assert ran == ["cursed"]


async def test_g8_a_statement_that_cannot_be_built_loses_no_other_verdict(
    hw: Headway, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    @hw.task
    async def echo(n: int) -> int:
        return n

    made = await echo.enqueue_many({"n": n} for n in range(50))
    bad = str(made[7].id)
    finish = jobs.finish

    def picky(target: Any, settled: Any, now: Any, **options: Any) -> Any:
        if any(one.claim.id == bad and one.verdict.kind == "succeed" for one in settled):
            raise TypeError("cannot be written down")
        return finish(target, settled, now, **options)

    monkeypatch.setattr(jobs, "finish", picky)
    start()
    good = [job for job in made if str(job.id) != bad]
    assert len([await job.result(timeout="60s") for job in good]) == 49
    await eventually(lambda: asyncio.ensure_future(_state(made[7], "failed")))
    assert (await made[7].status()).error["type"] == "InvalidResult"


async def _state(job: Any, state: str) -> bool:
    return (await job.status()).state == state


@pytest.fixture
async def latin(server_dsn: str) -> AsyncIterator[str]:
    """A database that knows no other characters than those of Western Europe."""
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        name = sql.Identifier("headway_latin_1")
        conn.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        made = "create database {} encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'"
        conn.execute(sql.SQL(made).format(name))
        yield psycopg.conninfo.make_conninfo(server_dsn, dbname="headway_latin_1")
        conn.execute(sql.SQL("drop database if exists {} with (force)").format(name))


async def test_s7_a_text_that_the_database_cannot_encode_fails_its_own_job_only(latin: str) -> None:
    hw = Headway(latin)
    await hw.migrate()

    @hw.task(retry=Retry(max_attempts=1))
    async def say(n: int, how: str) -> str:
        if how == "raise":
            raise ValueError("\u65e5\u672c")
        return "\u65e5\u672c" if how == "return" else "fine"

    good = await say.enqueue_many({"n": n, "how": "fine"} for n in range(20))
    bad = [await say.enqueue(n=0, how=how) for how in ("return", "raise")]
    await hw.run_until_idle()
    assert [await job.result() for job in good] == ["fine"] * 20
    kinds = [(status.state, status.error["type"]) for status in [await job.status() for job in bad]]
    assert kinds == [("failed", "InvalidResult")] * 2
    await hw.close()


async def test_r7_a_round_trip_locks_a_bounded_number_of_keys(
    hw: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    lock_keys = jobs.lock_keys

    def observed(keys: Any) -> Any:
        counts.append(len(keys))
        return lock_keys(keys)

    monkeypatch.setattr(jobs, "lock_keys", observed)

    @hw.task(concurrency_key=lambda n: str(n))
    async def keyed(n: int) -> None: ...

    await keyed.enqueue_many({"n": n} for n in range(1700))
    report = await hw.run_until_idle(batch=10_000, concurrency=5_000)
    assert report.settled == {"succeed": 1700}
    assert max(counts) <= admission.KEYS_AT_ONCE


async def test_r12_a_sweep_that_fails_starves_none_of_the_others() -> None:
    ran: list[str] = []

    async def fails(now: Any) -> bool:
        ran.append("fails")
        raise DatabaseError("lasting")

    async def works(now: Any) -> bool:
        ran.append("works")
        return False

    sweeper = Sweeper(None, Clock(), [Sweep("bad", fails, 1.0), Sweep("good", works, 1.0)])  # type: ignore[arg-type]
    sweeper.lead(True)
    rest = await sweeper.turn()
    assert ran == ["fails", "works"]
    assert rest is not None
    assert rest <= 1.0
    failing = {track.service: track.status().failures for track in sweeper.tracks()}
    assert failing["sweep bad"] == 1, "health and the log know of it"
    assert failing["sweep good"] == 0


async def test_s16_a_lock_on_the_job_table_costs_no_worker_its_lease(
    hw: Headway, dsn: str, schema: str, start: Callable[..., Running]
) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @hw.task
    async def long() -> str:
        began.set()
        await go.wait()
        return "done"

    worker = start(lease="2s").worker
    job = await long.enqueue()
    await asyncio.wait_for(began.wait(), 60)
    worker_id = worker.id
    with psycopg.connect(dsn) as conn:
        conn.execute(f'lock table "{schema}".job in access exclusive mode')
        locked_at = time.monotonic()
        beat = worker._upkeep.heartbeat
        # Beats go on for longer than two leases, and the handler is not stopped.
        await eventually(lambda: (beat.beaten_at or 0) > locked_at + 4.0)
        assert str(job.id) in worker._running.executor.running
        assert worker._running.executor.running[str(job.id)].reason is None
    go.set()
    assert await job.result(timeout="60s") == "done"
    assert worker._upkeep.heartbeat.worker_id == worker_id


async def test_r13_verdicts_with_unique_keys_do_not_wait_for_transactional_handlers(
    hw: Headway, start: Callable[..., Running]
) -> None:
    """A handler that has the only connection waits for the result of a job that settles apart."""

    @hw.task
    async def child(n: int) -> None: ...

    @hw.task
    async def makes(ctx: Context, n: int) -> str:
        await ctx.enqueue(child.using(unique=f"only {n}"), n)
        return "made"

    @hw.task(transaction=True, retry=Retry(max_attempts=1))
    async def waits(ctx: Context) -> str:
        other = await makes.enqueue(1)
        return await other.result(timeout="60s")

    start(transactions=1)
    assert await (await waits.enqueue()).result(timeout="90s") == "made"


async def test_h1_a_handler_s_connection_to_another_server_cancels_nothing(
    hw: Headway, dsn: str, schema: str, db: Db, start: Callable[..., Running], monkeypatch: Any
) -> None:
    """The first connection for handlers leads to a database that does not know the job, as after a
    failover: the job is not there, which means lost, never cancelled. It runs again, on the right one."""
    other = f"{db.info.dbname}_other"
    db.execute(sql.SQL("create database {}").format(sql.Identifier(other)))
    try:
        elsewhere = psycopg.conninfo.make_conninfo(dsn, dbname=other)
        await Headway(elsewhere, schema=schema).migrate()
        right = HandlerTransactions._dsn
        opened: list[str] = []

        def first_elsewhere(self: HandlerTransactions) -> str:
            name = psycopg.conninfo.conninfo_to_dict(right(self))["application_name"]
            opened.append(str(name))
            if len(opened) == 1:
                return psycopg.conninfo.make_conninfo(elsewhere, application_name=name)
            return right(self)

        monkeypatch.setattr(HandlerTransactions, "_dsn", first_elsewhere)

        @hw.task(transaction=True)
        async def charge(ctx: Context) -> str:
            return "charged"

        job = await charge.enqueue()
        running = start()

        async def settled_or_lost() -> bool:
            return bool(running.worker.report.settled.get("release"))

        await eventually(settled_or_lost)
        running.worker.reconnect(moved=True)
        assert await job.result(timeout="60s") == "charged"
        assert db.execute("select count(*) from archive where state = 'c'").fetchone() == (0,)
        await running.stop()
    finally:
        db.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(other)))


async def test_h3_no_connection_of_a_worker_leads_to_a_server_it_has_left(
    hw: Headway, start: Callable[..., Running], db: Db
) -> None:
    """Kept connections are given up when the worker reconnects; those in use too if the server is
    another."""
    began, go = asyncio.Event(), asyncio.Event()

    @hw.task(transaction=True, retry=Retry(base="10ms", cap="10ms"))
    async def charge(ctx: Context, waits: bool) -> int:
        if waits and ctx.attempt == 1:
            began.set()
            await go.wait()
            await ctx.conn.execute("select 1")
        return ctx.attempt

    worker = start().worker
    await (await charge.enqueue(waits=False)).result(timeout="60s")
    assert len(worker._running.transactional._transactions._idle) == 1
    worker.reconnect(moved=False)
    assert worker._running.transactional._transactions._idle == []
    job = await charge.enqueue(waits=True)
    await asyncio.wait_for(began.wait(), 60)
    worker.reconnect(moved=True)
    go.set()
    assert await job.result(timeout="60s") == 2, "the first attempt failed with its connection"


async def test_r2_a_job_that_a_worker_holds_without_knowing_it_is_adopted(
    hw: Headway, db: Db, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover forgot the end of a job. Or a server process was stopped, and ran a claim long after
    the worker had stopped looking for it."""
    monkeypatch.setattr(orphans, "_REGULARLY", 0.5)
    ran: list[int] = []

    @hw.task
    async def again() -> None:
        ran.append(1)

    worker = start(poll="10m", poll_alone="10m", listen=False).worker
    job = await again.enqueue()
    worker._job_loop.hint(None)
    await job.result(timeout="60s")
    db.execute(
        """with ended as (delete from archive returning *)
           insert into job (id, max_attempts, queue, task, input, run_at, created_at,
                            state, claim, attempt, worker_id, claimed_at)
           select id, max_attempts, queue, task, input, run_at, created_at, 'x', 7, 1, %s, now()
           from ended""",
        [worker.id],
    )
    await job.result(timeout="60s")
    assert len(ran) == 2


async def test_k3_a_key_is_not_admitted_under_before_its_refused_verdict_is_replaced(
    hw: Headway, db: Db, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Admitted earlier, the key has no room yet, and the next job waits for a scan by the leader."""
    db.execute("alter table archive add constraint picky check (result <> '-1')")
    refused, unsettled = admission.KeyAdmission.refused, list[int]()

    def observed(self: admission.KeyAdmission, taken: admission.FreedKeys) -> None:
        unsettled.append(worker._claiming.settler.unsettled)
        refused(self, taken)

    monkeypatch.setattr(admission.KeyAdmission, "refused", observed)

    @hw.task(concurrency_key=Key("k", limit=1))
    async def echo(n: int) -> int:
        return n

    jobs = [await echo.enqueue(n) for n in (-1, 1)]
    worker = start().worker
    assert await jobs[1].result(timeout="60s") == 1
    assert (await jobs[0].status()).state == "failed"
    assert unsettled == [0]
