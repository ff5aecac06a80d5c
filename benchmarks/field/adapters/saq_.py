"""saq on PostgreSQL: LISTEN/NOTIFY, a pool of 20."""

from __future__ import annotations

import logging
from typing import Any

import uvloop
from protocol import CONCURRENCY, URL, Payload, called, main
from saq import Queue, Worker

logging.disable(logging.WARNING)
queue = Queue.from_url(URL)


async def noop(ctx: Any, *, n: int, t: float | None = None) -> None:
    called(t)


async def setup() -> None:
    await queue.connect()


async def enqueue(payload: Payload) -> None:
    await queue.enqueue("noop", **payload)


async def enqueue_many(payloads: list[Payload]) -> None:
    for payload in payloads:  # it has no call for several
        await enqueue(payload)


async def work() -> None:
    await Worker(queue, functions=[noop], concurrency=CONCURRENCY).start()


async def program() -> None:
    await queue.connect()
    await main(setup=setup, enqueue=enqueue, enqueue_many=enqueue_many, work=work)


uvloop.run(program())
