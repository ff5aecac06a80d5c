"""The tasks under test. Nothing keeps an effect from being there twice, so that it would show."""

from __future__ import annotations

import os

from headway import Context, Headway, Next, Retry

PATIENT = Retry(max_attempts=20)
EFFECT = "insert into effect (job_id, step) values (%s, %s)"
STEPS = ("first", "second", "third")

hw = Headway()


@hw.task(retry=PATIENT)
async def plain(ctx: Context, n: int) -> None:
    """Append a line to a file: an effect outside the database."""
    file = os.open(os.environ["HA_PLAIN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{ctx.job_id}\n".encode())
    os.close(file)


@hw.task(transaction=True, retry=PATIENT)
async def tx(ctx: Context, n: int) -> None:
    await ctx.conn.execute(EFFECT, (ctx.job_id, ""))


@hw.task(transaction=True, retry=PATIENT, schedule="@every 1s")
async def tick(ctx: Context) -> None:
    await ctx.conn.execute(EFFECT, (ctx.job_id, ""))


f3 = hw.flow("f3", retry=PATIENT)


@f3.step(transaction=True)
async def first(ctx: Context, n: int) -> Next:
    await ctx.conn.execute(EFFECT, (ctx.job_id, ctx.step))
    return second.next(n)


@f3.step(transaction=True)
async def second(ctx: Context, n: int) -> Next:
    await ctx.conn.execute(EFFECT, (ctx.job_id, ctx.step))
    return third.next(n)


@f3.step(transaction=True)
async def third(ctx: Context, n: int) -> None:
    await ctx.conn.execute(EFFECT, (ctx.job_id, ctx.step))
