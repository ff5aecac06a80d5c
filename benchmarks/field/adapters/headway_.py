"""Headway: the public API, one worker process, results kept."""

from __future__ import annotations

import os

import uvloop
from protocol import CONCURRENCY, DSN, Payload, called, main

from headway import Headway

hw = Headway(DSN)


@hw.task
async def noop(n: int, t: float | None = None) -> int:
    called(t)
    return n


async def enqueue(payload: Payload) -> None:
    await noop.enqueue(**payload)


async def enqueue_many(payloads: list[Payload]) -> None:
    await noop.enqueue_many(payloads)


async def setup() -> None:
    await hw.migrate()


async def work() -> None:
    await hw.worker(concurrency=CONCURRENCY, **_options()).run()


def _options() -> dict[str, int]:
    batch = os.environ.get("BENCH_BATCH")
    return {} if batch is None else {"batch": int(batch)}


uvloop.run(main(setup=setup, enqueue=enqueue, enqueue_many=enqueue_many, work=work))
