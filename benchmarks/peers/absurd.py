"""absurd: five steps of one durable task, by its async worker."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from benchmarks.measure import Meter, Reading

_QUEUE = "bench"
_CONCURRENCY = 50


async def run(dsn: str, count: int) -> Reading:
    """Spawns `count` tasks, then measures a worker from its start until the last is done."""
    from absurd_sdk import AsyncAbsurd

    await _install(dsn)
    app = AsyncAbsurd(dsn, queue_name=_QUEUE)
    done = 0

    @app.register_task(name="five")
    async def five(params: Any, ctx: Any) -> int:
        nonlocal done
        value = params["n"]
        for number in range(5):

            async def step(value: int = value) -> int:
                return value + 1

            value = await ctx.step(f"step-{number}", step)
        done += 1
        return value

    await app.create_queue(_QUEUE)
    for n in range(count):
        await app.spawn("five", {"n": n})
    meter = Meter(dsn)
    meter.start()
    worker = asyncio.create_task(
        app.start_worker(concurrency=_CONCURRENCY, batch_size=_CONCURRENCY)
    )
    while done < count:
        await asyncio.sleep(0.01)
    reading = meter.stop(count)
    meter.close()
    app.stop_worker()
    await worker
    await app.close()
    return reading


async def _install(dsn: str) -> None:
    import absurdctl

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute("drop schema if exists absurd cascade")
        await conn.execute(absurdctl.BUNDLED_SCHEMA_SQL)
