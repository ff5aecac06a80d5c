"""PgQueuer: asyncpg driver, uvloop, a large batch, as its benchmark has it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries
from protocol import CONCURRENCY, URL, Payload, called, main

_pool: Any = None


async def queries() -> Queries:
    global _pool
    if _pool is None:
        _pool = Queries(AsyncpgPoolDriver(await asyncpg.create_pool(URL, min_size=1, max_size=20)))
    return _pool


async def setup() -> None:
    conn = await asyncpg.connect(URL)
    await Queries(AsyncpgDriver(conn)).install()


async def enqueue(payload: Payload) -> None:
    await (await queries()).enqueue("noop", json.dumps(payload).encode())


async def enqueue_many(payloads: list[Payload]) -> None:
    count = len(payloads)
    documents = [json.dumps(payload).encode() for payload in payloads]
    await (await queries()).enqueue(["noop"] * count, documents, [0] * count)


async def work() -> None:
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @pgq.entrypoint("noop")
    async def noop(job: Any) -> None:
        called(json.loads(job.payload).get("t"))

    await pgq.run(dequeue_timeout=timedelta(seconds=1), batch_size=min(CONCURRENCY, 500))


uvloop.run(main(setup=setup, enqueue=enqueue, enqueue_many=enqueue_many, work=work))
