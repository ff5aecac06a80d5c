"""G4 and G5: jobs made by a handler, and its flow's move, exist with its success and only with that."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headway import Context, Headway
from tests.transactions.handlers import AT_ONCE, KINDS, WRITE, effects

Db = psycopg.Connection[Any]


def _made(db: Db) -> list[str]:
    return [row[0] for row in db.execute("select input->>'how' from jobs where task = 'child'")]


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_jobs_made_in_the_transaction_exist_with_its_commit(
    hw: Headway, db: Db, kind: str
) -> None:

    @hw.task
    async def child(how: str) -> None: ...

    async def on_the_loop(ctx: Context) -> None:
        await ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, ""))
        await child.using(conn=ctx.conn, delay="1h").enqueue("conn")
        await ctx.enqueue(child.using(delay="1h"), "ctx")
        assert _made(db) == []
        if ctx.attempt == 1:
            raise RuntimeError("not yet")

    def in_a_thread(ctx: Context) -> None:
        ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, ""))
        child.using(conn=ctx.conn, delay="1h").enqueue_sync("conn")
        ctx.enqueue_sync(child.using(delay="1h"), "ctx")
        assert _made(db) == []
        if ctx.attempt == 1:
            raise RuntimeError("not yet")

    parent = hw.task(name="parent", transaction=True, retry=AT_ONCE)(
        on_the_loop if kind == "async" else in_a_thread
    )
    job = await parent.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).state == "succeeded"
    assert [a.error["type"] for a in await job.attempts()] == ["RuntimeError"]
    assert sorted(_made(db)) == ["conn", "ctx"]
    writers = db.execute(
        """select xmin::text from effect union select xmin::text from archive
           union select xmin::text from job"""
    )
    assert len(writers.fetchall()) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_g5_the_move_to_the_next_step_is_part_of_the_transaction(
    hw: Headway, db: Db, start, kind: str
) -> None:
    """Three steps; each does its work twice over, once in vain."""
    flow = hw.flow("order")

    @hw.task
    async def child(how: str) -> None: ...

    def step(name: str, following: str | None) -> None:
        def go_on(ctx: Context) -> Any:
            if ctx.attempt == 1:
                raise RuntimeError("not yet")
            return name if following is None else steps[following].next()

        async def on_the_loop(ctx: Context) -> Any:
            await ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, name))
            await ctx.enqueue(child.using(delay="1h"), name)
            return go_on(ctx)

        def in_a_thread(ctx: Context) -> Any:
            ctx.conn.execute(WRITE, (ctx.job_id, ctx.attempt, name))
            ctx.enqueue_sync(child.using(delay="1h"), name)
            return go_on(ctx)

        steps[name] = flow.step(name=name, transaction=True, retry=AT_ONCE)(
            on_the_loop if kind == "async" else in_a_thread
        )

    steps: dict[str, Any] = {}
    for name, following in (("a", "b"), ("b", "c"), ("c", None)):
        step(name, following)
    start()
    job = await flow.enqueue()
    assert await job.result(timeout="60s") == "c"
    assert effects(db) == [(2, "a"), (2, "b"), (2, "c")]
    assert sorted(_made(db)) == ["a", "b", "c"]
    history = [(h.step, h.attempt, h.outcome) for h in await job.history()]
    assert [(step, attempt) for step, attempt, _ in history] == [
        (step, attempt) for step in "abc" for attempt in (1, 2)
    ]
    together = db.execute(
        """select e.note, count(distinct x) from effect e
           cross join lateral (
             select e.xmin::text
             union all select xmin::text from attempt where step = e.note and error is null
             union all select xmin::text from job where input->>'how' = e.note) w(x)
           group by 1 order by 1"""
    ).fetchall()
    assert together == [("a", 1), ("b", 1), ("c", 1)]
