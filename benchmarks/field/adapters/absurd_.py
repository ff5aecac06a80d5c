"""absurd: its async worker; a batch as large as the concurrency."""

from __future__ import annotations

from typing import Any

import absurdctl
import psycopg
import uvloop
from absurd_sdk import AsyncAbsurd
from protocol import CONCURRENCY, DSN, Payload, called, main

_QUEUE = "bench"
app = AsyncAbsurd(DSN, queue_name=_QUEUE)


@app.register_task(name="noop")
async def noop(params: Any, ctx: Any) -> int:
    called(params.get("t"))
    return int(params["n"])


@app.register_task(name="five")
async def five(params: Any, ctx: Any) -> int:
    value = int(params["n"])
    for number in range(5):

        async def step(value: int = value) -> int:
            return value + 1

        value = await ctx.step(f"step-{number}", step)
    called()
    return value


async def setup() -> None:
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as conn:
        await conn.execute(absurdctl.BUNDLED_SCHEMA_SQL)
    await app.create_queue(_QUEUE)


async def enqueue(payload: Payload) -> None:
    await app.spawn("noop", payload)


async def enqueue_many(payloads: list[Payload]) -> None:
    for payload in payloads:  # it has no call for several
        await app.spawn("noop", payload)


async def enqueue_flow(payload: Payload) -> None:
    await app.spawn("five", payload)


async def work() -> None:
    await app.start_worker(concurrency=CONCURRENCY, batch_size=CONCURRENCY, poll_interval=0.05)


uvloop.run(
    main(
        setup=setup,
        enqueue=enqueue,
        enqueue_many=enqueue_many,
        enqueue_flow=enqueue_flow,
        work=work,
    )
)
