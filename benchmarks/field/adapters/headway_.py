"""Headway: the public API, one worker process, results kept."""

from __future__ import annotations

import os

import uvloop
from protocol import CONCURRENCY, DSN, Payload, called, main

from headway import Headway, Next

hw = Headway(DSN)
five = hw.flow("five")


@hw.task
async def noop(n: int, t: float | None = None) -> int:
    called(t)
    return n


@five.step
async def one(n: int) -> Next:
    return two.next(n + 1)


@five.step
async def two(n: int) -> Next:
    return three.next(n + 1)


@five.step
async def three(n: int) -> Next:
    return four.next(n + 1)


@five.step
async def four(n: int) -> Next:
    return last.next(n + 1)


@five.step
async def last(n: int) -> int:
    called()
    return n + 1


async def enqueue(payload: Payload) -> None:
    await noop.enqueue(**payload)


async def enqueue_many(payloads: list[Payload]) -> None:
    await noop.enqueue_many(payloads)


async def enqueue_flow(payload: Payload) -> None:
    await five.enqueue(**payload)


async def setup() -> None:
    await hw.migrate()


async def work() -> None:
    await hw.worker(concurrency=CONCURRENCY, **_options()).run()


def _options() -> dict[str, int]:
    batch = os.environ.get("BENCH_BATCH")
    return {} if batch is None else {"batch": int(batch)}


uvloop.run(
    main(
        setup=setup,
        enqueue=enqueue,
        enqueue_many=enqueue_many,
        enqueue_flow=enqueue_flow,
        work=work,
    )
)
