"""procrastinate: PsycopgConnector with its pool, async tasks, LISTEN/NOTIFY on."""

from __future__ import annotations

import logging

import procrastinate
import uvloop
from protocol import CONCURRENCY, DSN, Payload, called, main

logging.disable(logging.WARNING)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DSN, max_size=20))


@app.task(name="noop")
async def noop(n: int, t: float | None = None) -> None:
    called(t)


async def setup() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def enqueue(payload: Payload) -> None:
    await noop.defer_async(**payload)


async def enqueue_many(payloads: list[Payload]) -> None:
    await noop.batch_defer_async(*payloads)


async def work() -> None:
    await app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)


async def program() -> None:
    async with app.open_async():
        await main(setup=setup_open, enqueue=enqueue, enqueue_many=enqueue_many, work=work)


async def setup_open() -> None:
    await app.schema_manager.apply_schema_async()


uvloop.run(program())
