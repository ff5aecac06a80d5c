"""Celery with Redis as broker and result store: the solo-thread pool and prefetch for short tasks."""

from __future__ import annotations

import asyncio
import os

from celery import Celery
from protocol import CONCURRENCY, Payload, called, main

_REDIS = os.environ["BENCH_REDIS"]
app = Celery("bench", broker=_REDIS, backend=_REDIS)
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=4,
    task_ignore_result=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(n: int, t: float | None = None) -> int:
    called(t)
    return n


async def setup() -> None:
    """Redis needs none."""


async def enqueue(payload: Payload) -> None:
    noop.delay(**payload)


async def enqueue_many(payloads: list[Payload]) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for payload in payloads:
            noop.apply_async(kwargs=payload, producer=producer)


async def work() -> None:
    threads = str(min(CONCURRENCY, 20))
    arguments = ["worker", "--pool=threads", f"--concurrency={threads}", "--loglevel=ERROR"]
    await asyncio.to_thread(
        app.worker_main, [*arguments, "--without-gossip", "--without-mingle", "--without-heartbeat"]
    )


asyncio.run(main(setup=setup, enqueue=enqueue, enqueue_many=enqueue_many, work=work))
