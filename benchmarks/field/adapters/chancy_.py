"""chancy: the async executor and eager polling, its documented choice for many short jobs."""

from __future__ import annotations

import logging

import uvloop
from chancy import Chancy, Job, Queue, Worker, job
from protocol import CONCURRENCY, DSN, Payload, called, main

logging.disable(logging.WARNING)


@job(queue="default")
async def noop(*, n: int, t: float | None = None) -> None:
    called(t)


async def program() -> None:
    async with Chancy(DSN, max_connection_pool_size=20) as chancy:

        async def setup() -> None:
            await chancy.migrate()
            queue = Queue(
                "default",
                concurrency=CONCURRENCY,
                executor=Chancy.Executor.Async,
                polling_interval=1,
                eager_polling=True,
            )
            await chancy.declare(queue, upsert=True)

        def made(payload: Payload) -> Job:
            return noop.job.with_kwargs(**payload)

        async def enqueue(payload: Payload) -> None:
            await chancy.push(made(payload))

        async def enqueue_many(payloads: list[Payload]) -> None:
            async for _ in chancy.push_many([made(payload) for payload in payloads]):
                pass

        async def work() -> None:
            await setup()
            async with Worker(chancy) as worker:
                await worker.wait_for_shutdown()

        await main(setup=setup, enqueue=enqueue, enqueue_many=enqueue_many, work=work)


uvloop.run(program())
