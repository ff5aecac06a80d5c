"""The app of workers that are stopped in the middle of a transaction; schema and gates as in tasks.py.

`pay` and `pay_in_thread` change a row that all of them need, so that whoever comes next waits for it.
Each waits, after that, for the gate of its attempt; `witness` says which process it ran in.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from headway import Context, Headway, Retry

FAST = Retry(max_attempts=5, backoff="constant", base=0, jitter=0)


def register(hw: Headway, schema: str) -> Headway:
    """The same tasks on any app."""
    change = f"update {schema}.account set balance = balance + 1, payer = %s"
    note = f"insert into {schema}.effect (job_id, attempt) values (%s, %s)"

    @hw.task(transaction=True, retry=FAST)
    async def pay(ctx: Context) -> int:
        await ctx.conn.execute(change, (ctx.attempt,))
        await ctx.conn.execute(note, (ctx.job_id, ctx.attempt))
        while not _gate(ctx).exists():
            await asyncio.sleep(0.02)
        return os.getpid()

    @hw.task(transaction=True, retry=FAST)
    def pay_in_thread(ctx: Context) -> int:
        ctx.conn.execute(change, (ctx.attempt,))
        ctx.conn.execute(note, (ctx.job_id, ctx.attempt))
        while not _gate(ctx).exists():
            time.sleep(0.02)
        return os.getpid()

    @hw.task(retry=FAST)
    async def witness() -> int:
        return os.getpid()

    return hw


def _gate(ctx: Context) -> Path:
    return Path(os.environ["GATES"], str(ctx.attempt))


_schema = os.environ.get("TEST_SCHEMA", "headway")
hw = register(Headway(schema=_schema), _schema)
