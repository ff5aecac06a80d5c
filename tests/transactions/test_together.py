"""G4: what a handler did and what becomes of its job are one commit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from headway import Context, Depends, Fatal, Headway, Snooze
from headway.errors import ConfigError
from tests.transactions.handlers import (
    AT_ONCE,
    KINDS,
    ONCE,
    WRITE,
    effects,
    errors,
    fail,
    on_first,
    task,
)

Db = psycopg.Connection[Any]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_effects_and_success_are_written_by_one_transaction(
    hw: Headway, db: Db, kind: str
) -> None:
    pay = task(hw, kind, lambda ctx: {"paid": ctx.attempt})
    job = await pay.enqueue("a")
    await hw.run_until_idle()
    assert await job.result() == {"paid": 1}
    writers = db.execute("select xmin::text from effect union select xmin::text from archive")
    assert len(writers.fetchall()) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_handler_that_raises_leaves_no_trace_and_is_tried_again(
    hw: Headway, db: Db, kind: str
) -> None:
    job = await task(hw, kind, on_first(fail)).enqueue()
    await hw.run_until_idle()
    assert (await job.status()).state == "succeeded"
    assert effects(db) == [(2, "")]
    assert await errors(job) == [(1, "RuntimeError")]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_handler_that_gives_up_leaves_no_trace(hw: Headway, db: Db, kind: str) -> None:
    def give_up(ctx: Context) -> None:
        raise Fatal("no such account")

    job = await task(hw, kind, give_up).enqueue()
    await hw.run_until_idle()
    assert ((await job.status()).state, effects(db)) == ("failed", [])


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_snooze_leaves_no_trace_and_costs_no_attempt(
    hw: Headway, db: Db, kind: str
) -> None:
    calls: list[int] = []

    def at_first_later(ctx: Context) -> None:
        calls.append(ctx.attempt)
        if len(calls) == 1:
            raise Snooze(0)

    await task(hw, kind, at_first_later).enqueue()
    await hw.run_until_idle()
    assert (calls, effects(db)) == ([1, 1], [(1, "")])


@pytest.mark.parametrize("value", [object(), "a\0b"], ids=["no json", "refused by the server"])
@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_result_that_cannot_be_stored_fails_the_job_and_rolls_back(
    hw: Headway, db: Db, kind: str, value: Any
) -> None:
    job = await task(hw, kind, lambda ctx: value).enqueue()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt, effects(db)) == ("failed", 1, [])
    assert status.error is not None
    assert status.error["type"] == "InvalidResult"


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_constraint_that_fails_at_commit_is_an_error_like_others(
    hw: Headway, db: Db, kind: str
) -> None:
    db.execute("alter table effect add unique (note) deferrable initially deferred")
    taken = "insert into effect (note) values ('taken')"
    db.execute(taken)

    async def on_the_loop(ctx: Context) -> None:
        note = "taken" if ctx.attempt == 1 else "free"
        await ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, note))

    def in_a_thread(ctx: Context) -> None:
        note = "taken" if ctx.attempt == 1 else "free"
        ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, note))

    pay = hw.task(transaction=True, retry=AT_ONCE)(on_the_loop if kind == "async" else in_a_thread)
    job = await pay.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).state == "succeeded"
    assert await errors(job) == [(1, "psycopg.errors.UniqueViolation")]
    db.execute("delete from effect where attempt is null")
    assert effects(db) == [(2, "free")]


async def test_g4_an_error_of_sql_that_was_swallowed_does_not_pass_for_success(
    hw: Headway, db: Db
) -> None:
    """The server has aborted the transaction: nothing of it can be kept."""

    async def divide(conn: Any) -> None:
        with suppress(psycopg.errors.DivisionByZero):
            await conn.execute("select 1 / 0")

    @hw.task(transaction=True, retry=AT_ONCE)
    async def pay(ctx: Context) -> None:
        await ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, ""))
        if ctx.attempt == 1:
            await divide(ctx.conn)

    job = await pay.enqueue()
    await hw.run_until_idle()
    assert effects(db) == [(2, "")]
    assert await errors(job) == [(1, "psycopg.errors.InFailedSqlTransaction")]


async def test_g4_savepoints_are_the_handler_s_own(hw: Headway, db: Db) -> None:

    @hw.task(transaction=True, retry=ONCE)
    async def on_the_loop(ctx: Context) -> None:
        await ctx.conn.execute(WRITE, (ctx.job_id, 1, "kept"))
        try:
            async with ctx.conn.transaction():
                await ctx.conn.execute(WRITE, (ctx.job_id, 1, "undone"))
                await ctx.conn.execute("select 1 / 0")
        except psycopg.errors.DivisionByZero:
            pass

    @hw.task(transaction=True, retry=ONCE)
    def in_a_thread(ctx: Context) -> None:
        with ctx.conn.transaction():
            ctx.conn.execute(WRITE, (ctx.job_id, 2, "kept"))
        with ctx.conn.transaction() as savepoint:
            ctx.conn.execute(WRITE, (ctx.job_id, 2, "undone"))
            raise psycopg.Rollback(savepoint)

    jobs = [await on_the_loop.enqueue(), await in_a_thread.enqueue()]
    await hw.run_until_idle()
    assert [(await job.status()).state for job in jobs] == ["succeeded"] * 2
    assert effects(db) == [(1, "kept"), (2, "kept")]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_an_explicit_commit_is_refused_by_the_driver(
    hw: Headway, db: Db, kind: str
) -> None:

    async def on_the_loop(ctx: Context) -> None:
        await ctx.conn.execute(WRITE, (ctx.job_id, 1, ""))
        await ctx.conn.commit()

    def in_a_thread(ctx: Context) -> None:
        ctx.conn.execute(WRITE, (ctx.job_id, 1, ""))
        ctx.conn.commit()

    pay = hw.task(transaction=True, retry=ONCE)(on_the_loop if kind == "async" else in_a_thread)
    job = await pay.enqueue()
    await hw.run_until_idle()
    error = (await job.status()).error
    assert error is not None
    assert error["message"].startswith("Explicit commit() forbidden")
    assert effects(db) == []


async def test_g4_a_transaction_that_was_ended_in_sql_is_no_success(hw: Headway) -> None:
    """A handler's own commit cannot be undone, and the error must say that it was apart."""

    @hw.task(transaction=True, retry=ONCE)
    async def on_the_loop(ctx: Context) -> None:
        await ctx.conn.execute("commit")

    @hw.task(transaction=True, retry=ONCE)
    def in_a_thread(ctx: Context) -> None:
        ctx.conn.execute("rollback")

    for each in (on_the_loop, in_a_thread):
        job = await each.enqueue()
        await hw.run_until_idle()
        error = (await job.status()).error
        assert error is not None
        assert "the handler ended its transaction itself" in error["message"]


async def test_g4_a_dependency_that_is_closed_after_the_handler_has_its_part_in_it(
    hw: Headway, db: Db
) -> None:
    async def ledger(ctx: Context):
        yield "open"
        await ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, "closed"))

    @hw.task(transaction=True, retry=AT_ONCE)
    async def pay(ctx: Context, book: str = Depends(ledger)) -> str:
        if ctx.attempt == 1:
            raise RuntimeError("not yet")
        return book

    job = await pay.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "open"
    assert effects(db) == [(2, "closed")]


async def test_what_one_handler_made_of_its_connection_is_not_left_to_the_next(hw: Headway) -> None:
    @hw.task(transaction=True)
    async def first(ctx: Context) -> int:
        ctx.conn.row_factory = dict_row
        return ctx.conn.info.backend_pid

    @hw.task(transaction=True)
    async def second(ctx: Context) -> Any:
        return await (await ctx.conn.execute("select pg_backend_pid()")).fetchone()

    before = await first.enqueue()
    await hw.run_until_idle(concurrency=1)
    jobs = [await first.enqueue(), await second.using(priority=-1).enqueue()]
    await hw.run_until_idle(concurrency=1)
    pid = await jobs[0].result()
    assert await jobs[1].result() == [pid], "the same connection, with rows as they were"
    assert pid != await before.result(), "a worker that stops closes what it had"


async def test_without_a_transaction_there_is_no_connection_and_the_error_says_why(
    hw: Headway,
) -> None:
    @hw.task(retry=ONCE)
    async def pay(ctx: Context) -> None:
        await ctx.conn.execute("select 1")

    job = await pay.enqueue()
    await hw.run_until_idle()
    error = (await job.status()).error
    assert error is not None
    assert error["type"] == "headway.errors.ConfigError"
    assert "define it with transaction=True" in error["message"]


def test_a_process_has_no_part_in_the_worker_s_transaction(hw: Headway) -> None:
    with pytest.raises(ConfigError, match="leave out transaction=True or executor"):
        hw.task(transaction=True, executor="process")(effects)


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_on_a_serializable_database_handlers_run_read_committed(
    hw: Headway, db: Db, kind: str
) -> None:
    name = db.info.dbname
    db.execute(f'alter database "{name}" set default_transaction_isolation = serializable')
    try:

        async def on_the_loop(ctx: Context) -> Any:
            return await (await ctx.conn.execute("show transaction_isolation")).fetchone()

        def in_a_thread(ctx: Context) -> Any:
            return ctx.conn.execute("show transaction_isolation").fetchone()

        look = hw.task(transaction=True)(on_the_loop if kind == "async" else in_a_thread)
        job = await look.enqueue()
        pay = task(hw, kind)
        many = await pay.enqueue_many({"note": str(n)} for n in range(20))
        await hw.run_until_idle()
    finally:
        db.execute(f'alter database "{name}" reset default_transaction_isolation')
    assert await job.result() == ["read committed"]
    assert len(effects(db)) == len(many)
    assert db.execute("select count(*) from attempt").fetchone() == (0,)
