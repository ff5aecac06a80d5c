"""A flow whose every trace can be counted; the app of the workers that are killed at boundaries.

Three steps. `reserve` and `charge` run in a transaction, on the loop and in a thread, and write a row
each; `charge` and `ship` wait in lines, the latter in strict order; `ship` is late for some, and fails at
its first attempt for others. Each makes a child, by one way or the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any
from uuid import UUID

import psycopg

from headway import Context, Headway, Key, Retry
from headway.flow import Flow

PATIENT = Retry(max_attempts=1000, backoff="constant", base=0, jitter=0, max_crashes=1000)
STEPS = ["reserve", "charge", "ship"]


def register(hw: Headway) -> Flow[None]:
    """The flow `order` and its children `receipt` on any app."""
    effect = f"insert into {hw._session.target.schema}.effect (job_id, step) values (%s, %s)"
    order = hw.flow("order", retry=PATIENT)

    @hw.task(retry=PATIENT)
    async def receipt(parent: UUID, step: str) -> None: ...

    @order.step(transaction=True)
    async def reserve(ctx: Context, n: int, shop: str):
        await ctx.conn.execute(effect, (ctx.job_id, ctx.step))
        await ctx.enqueue(receipt, ctx.job_id, ctx.step)
        return charge.next(n, shop)

    @order.step(transaction=True, concurrency_key=Key(lambda n, shop: shop, limit=2))
    def charge(ctx: Context, n: int, shop: str):
        ctx.conn.execute(effect, (ctx.job_id, ctx.step))
        receipt.using(conn=ctx.conn).enqueue_sync(ctx.job_id, ctx.step)
        return ship.after("20ms", n, shop) if n % 3 == 1 else ship.next(n, shop)

    @order.step(concurrency_key=Key(lambda n, shop: f"{shop} ships", ordered=True))
    async def ship(ctx: Context, n: int, shop: str) -> int:
        await ctx.enqueue(receipt, ctx.job_id, ctx.step)
        if n % 3 == 0 and ctx.attempt == 1:
            raise RuntimeError("not yet")
        return n

    return order


def assert_each_trace_is_there_once(db: psycopg.Connection[Any], flows: Collection[UUID]) -> None:
    """Every flow at its end, each step done once, each effect and child there once, nothing left over."""
    last = STEPS[-1]
    _same("live jobs", db.execute("select id, task, step, label(state) from job").fetchall(), [])
    _same(
        "flows",
        db.execute("select id, label(state) from archive where task = 'order'").fetchall(),
        [(id_, "succeeded") for id_ in flows],
    )
    _same(
        "steps done",
        db.execute(
            "select job_id, step, outcome::text from attempt where error is null"
        ).fetchall(),
        [(id_, step, "d" if step == last else "n") for id_ in flows for step in STEPS],
    )
    _same(
        "effects",
        db.execute("select job_id, step from effect").fetchall(),
        [(id_, step) for id_ in flows for step in STEPS[:2]],
    )
    _same(
        "children",
        db.execute(
            """select (input->>'parent')::uuid, input->>'step', label(state) from archive
               where task = 'receipt'"""
        ).fetchall(),
        [(id_, step, "succeeded") for id_ in flows for step in STEPS],
    )


def _same(what: str, found: list[Any], expected: list[Any]) -> None:
    missing, beyond = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    assert not missing, f"{what} missing: {missing}"
    assert not beyond, f"{what} too many: {beyond}"
