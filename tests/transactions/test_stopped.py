"""G4, when an attempt is stopped, lost or cut off: nothing of it stays."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from headway import Context, Headway
from headway.errors import JobCancelled
from tests.support import DEADLINE, eventually
from tests.transactions.handlers import (
    AT_ONCE,
    KINDS,
    ONCE,
    WRITE,
    Gate,
    effects,
    errors,
    function,
    on_first,
    task,
)

Db = psycopg.Connection[Any]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_handler_that_lost_its_claim_writes_nothing(
    hw: Headway, db: Db, start, kind: str
) -> None:
    """Its job was given to another worker meanwhile: the claim number has gone on."""
    gate = Gate()
    job = await task(hw, kind, gate=gate).enqueue()
    running = start()
    await asyncio.to_thread(gate.began.wait, 60)
    db.execute("update job set claim = claim + 1")
    before = db.execute("select job.*, xmin from job").fetchall()
    gate.open.set()
    await eventually(lambda: running.worker.report.lost)
    assert db.execute("select job.*, xmin from job").fetchall() == before
    assert (effects(db), await job.attempts()) == ([], [])
    assert db.execute("select count(*) from archive").fetchone() == (0,)


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_step_that_lost_its_claim_does_not_move(
    hw: Headway, db: Db, start, kind: str
) -> None:
    gate = Gate()
    flow = hw.flow("order")
    first = flow.step(name="first", transaction=True)(
        function(kind, lambda ctx: second.next(), gate)
    )

    @flow.step
    async def second() -> None: ...

    await first.using().enqueue()
    running = start()
    await asyncio.to_thread(gate.began.wait, 60)
    db.execute("update job set claim = claim + 1")
    gate.open.set()
    await eventually(lambda: running.worker.report.lost)
    assert db.execute("select label(state), step, claim >> 32 from job").fetchall() == [
        ("running", "first", 1)
    ]
    assert effects(db) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_handler_that_is_cancelled_leaves_no_trace(
    hw: Headway, db: Db, start, kind: str
) -> None:
    gate = Gate()
    job = await task(hw, kind, gate=gate).enqueue()
    start()
    await asyncio.to_thread(gate.began.wait, 60)
    assert await job.cancel()
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")
    assert effects(db) == []


async def test_g4_a_step_that_was_asked_to_stop_does_not_move_on(
    hw: Headway, db: Db, start
) -> None:
    """The request was not heard: it is found when the step is settled."""
    gate = Gate()
    flow = hw.flow("order")
    first = flow.step(name="first", transaction=True)(
        function("async", lambda ctx: second.next(), gate)
    )

    @flow.step
    async def second() -> None: ...

    job = await first.using().enqueue()
    start(lease="1h")
    await asyncio.to_thread(gate.began.wait, 60)
    db.execute("insert into stop_request (job_id, asked_at) select id, now() from job")
    gate.open.set()
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")
    assert effects(db) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_handler_that_times_out_leaves_no_trace(hw: Headway, db: Db, kind: str) -> None:
    never = Gate()
    job = await task(hw, kind, gate=never, timeout="3s", retry=ONCE).enqueue()
    await hw.run_until_idle()
    assert never.began.is_set()
    assert await errors(job) == [(1, "TimedOut")]
    assert effects(db) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_timeout_ends_the_statement_that_is_under_way(
    hw: Headway, db: Db, kind: str
) -> None:
    """A statement that the server goes on with would keep the handler's locks."""
    db.execute("insert into effect values (null, 0, 'row')")
    lock = "select 1 from effects.effect for update"

    async def on_the_loop(ctx: Context) -> None:
        await ctx.conn.execute(lock)
        await ctx.conn.execute("select pg_sleep(600)")

    def in_a_thread(ctx: Context) -> None:
        ctx.conn.execute(lock)
        ctx.conn.execute("select pg_sleep(600)")

    stuck = hw.task(transaction=True, retry=ONCE, timeout="3s")(
        on_the_loop if kind == "async" else in_a_thread
    )
    job = await stuck.enqueue()
    await hw.run_until_idle()
    assert await errors(job) == [(1, "TimedOut")]
    await asyncio.to_thread(db.execute, "update effect set note = 'free'")


async def test_g4_a_thread_that_will_not_stop_loses_its_transaction(
    hw: Headway, db: Db, start
) -> None:
    db.execute("insert into effect values (null, 0, 'row')")
    let_go, ended = threading.Event(), threading.Event()
    met: list[type[BaseException]] = []

    @hw.task(transaction=True, retry=ONCE, timeout="3s")  # it must get as far as its wait
    def stuck(ctx: Context) -> None:
        ctx.conn.execute("update effects.effect set note = 'locked'")
        with suppress(BaseException):  # told to stop, it goes on
            let_go.wait(2 * DEADLINE)  # nothing interrupts this
        try:
            ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, "late"))
        except BaseException as error:
            met.append(type(error))
            raise
        finally:
            ended.set()

    start()
    job = await stuck.enqueue()
    await eventually(lambda: _state(db, job) == "failed")
    assert not ended.is_set()
    await asyncio.to_thread(db.execute, "update effect set note = 'free'")
    let_go.set()
    assert await asyncio.to_thread(ended.wait, DEADLINE)
    assert len(met) == 1
    assert effects(db) == [(0, "free")]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_connection_that_is_ended_under_a_handler_costs_an_attempt_and_no_effect(
    hw: Headway, db: Db, kind: str
) -> None:
    def end(ctx: Context) -> None:
        db.execute("select pg_terminate_backend(%s, 60000)", (ctx.conn.info.backend_pid,))

    job = await task(hw, kind, on_first(end)).enqueue()
    await hw.run_until_idle()
    assert (await job.status()).state == "succeeded"
    assert effects(db) == [(2, "")]
    assert await errors(job) == [(1, "psycopg.errors.AdminShutdown")]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_connection_that_is_ended_in_its_commit_leaves_no_trace(
    hw: Headway, db: Db, kind: str
) -> None:
    """The verdict is written already, but not committed."""
    db.execute(
        f"""create function effects.end_it() returns trigger language plpgsql as $$ begin
              if new.attempt = 1 then
                perform 1 from {hw._session.target.schema}.archive where id = new.job_id;
                if not found then raise 'it is not settled yet'; end if;
                perform pg_terminate_backend(pg_backend_pid());
              end if;
              return null;
            end $$;
            create constraint trigger end_it after insert on effects.effect deferrable initially deferred
            for each row execute function effects.end_it()"""
    )
    job = await task(hw, kind).enqueue()
    await hw.run_until_idle()
    assert (await job.status()).state == "succeeded"
    assert effects(db) == [(2, "")]
    assert await errors(job) == [(1, "psycopg.errors.AdminShutdown")]


@pytest.mark.parametrize("kind", KINDS)
async def test_g11_a_worker_that_drains_lets_a_transaction_end(
    hw: Headway, db: Db, start, kind: str
) -> None:
    gate = Gate()
    job = await task(hw, kind, gate=gate).enqueue()
    running = start(grace="60s")
    await asyncio.to_thread(gate.began.wait, 60)
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0)  # it has been told
    gate.open.set()
    await stopping
    assert (await job.status()).state == "succeeded"
    assert effects(db) == [(1, "")]


@pytest.mark.parametrize("kind", KINDS)
async def test_g11_a_transaction_beyond_the_grace_goes_back_unharmed(
    hw: Headway, db: Db, start, kind: str
) -> None:
    gate = Gate()
    job = await task(hw, kind, gate=gate, retry=AT_ONCE).enqueue()
    running = start(grace="50ms")
    await asyncio.to_thread(gate.began.wait, 60)
    await running.stop()
    status = await job.status()
    assert (status.state, status.attempt, effects(db)) == ("ready", 0, [])
    gate.open.set()
    await hw.run_until_idle()
    assert effects(db) == [(1, "")]


def _state(db: Db, job: Any) -> str | None:
    row = db.execute("select state from jobs where id = %s", (job.id,)).fetchone()
    return None if row is None else row[0]
