"""The app of workers that are stopped in the middle of a transaction; schema and gates as in tasks.py.

`pay` and `pay_in_thread` change a row that all of them need, so that the next one waits for it.
Each waits, after that, for the gate of its run; `witness` says which process it ran in.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from headway import Context, Headway, Retry
from tests.crash.runs import next_run, worker_pid

FAST = Retry(max_attempts=5, backoff="constant", base=0, jitter=0)


def register(hw: Headway, schema: str) -> Headway:
    """The same tasks on any app."""
    change = f"update {schema}.account set balance = balance + 1, payer = %s"
    note = f"insert into {schema}.effect (job_id, run) values (%s, %s)"

    @hw.task(transaction=True, retry=FAST)
    async def pay(ctx: Context) -> int:
        run = next_run(ctx)
        await ctx.conn.execute(change, (run,))
        await ctx.conn.execute(note, (ctx.job_id, run))
        while not _gate(run).exists():
            await asyncio.sleep(0.02)
        return worker_pid()

    @hw.task(transaction=True, retry=FAST)
    def pay_in_thread(ctx: Context) -> int:
        run = next_run(ctx)
        ctx.conn.execute(change, (run,))
        ctx.conn.execute(note, (ctx.job_id, run))
        while not _gate(run).exists():
            time.sleep(0.02)
        return worker_pid()

    @hw.task(retry=FAST)
    async def witness() -> int:
        return worker_pid()

    return hw


def _gate(run: int) -> Path:
    return Path(os.environ["GATES"], str(run))


_schema = os.environ.get("TEST_SCHEMA", "headway")
hw = register(Headway(schema=_schema), _schema)
