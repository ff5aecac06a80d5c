"""RQ with Redis: the worker that runs jobs in its own process, its documented choice for short jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from protocol import Payload, called, main
from redis import Redis
from rq import Queue, SimpleWorker

logging.disable(logging.WARNING)
sys.modules["rq_"] = sys.modules["__main__"]  # jobs name their function by module
redis = Redis.from_url(os.environ["BENCH_REDIS"])
queue = Queue(connection=redis)


def noop(n: int, t: float | None = None) -> int:
    called(t)
    return n


async def setup() -> None:
    """Redis needs none."""


async def enqueue(payload: Payload) -> None:
    queue.enqueue("rq_.noop", kwargs=payload)


async def enqueue_many(payloads: list[Payload]) -> None:
    queue.enqueue_many([Queue.prepare_data("rq_.noop", kwargs=payload) for payload in payloads])


async def work() -> None:
    SimpleWorker([queue], connection=redis).work(logging_level="ERROR")


asyncio.run(main(setup=setup, enqueue=enqueue, enqueue_many=enqueue_many, work=work))
