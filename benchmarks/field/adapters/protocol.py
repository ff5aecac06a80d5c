"""The workloads of one system. Standard library only: each peer has its own environment.

A program prints `READY` when its imports are done, and reads one line before it starts. It prints
its result as one line of JSON. Workers count their handler's calls in a file that the driver reads.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

DSN = os.environ["BENCH_DSN"]
URL = os.environ["BENCH_URL"]
"""The same place, for libraries that read URLs only."""
FOLDER = os.environ["BENCH_FOLDER"]
CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "100"))
_WARM_UP = 50

Payload = dict[str, Any]
Enqueue = Callable[[Payload], Awaitable[Any]]
EnqueueMany = Callable[[list[Payload]], Awaitable[Any]]


class _Calls:
    """Counts calls of the handler in a mapped file: an increment is not a system call."""

    def __init__(self) -> None:
        self._pid = 0
        self._delays: Any = None

    def note(self, sent_at: float | None) -> None:
        if self._pid != os.getpid():
            self._open()
        self._count[0] += 1
        if sent_at is not None:
            self._delays.write(f"{time.monotonic() - sent_at:.6f}\n")

    def _open(self) -> None:
        self._pid = os.getpid()
        path = f"{FOLDER}/{self._pid}.calls"
        with open(path, "wb") as file:
            file.write(bytes(8))
        self._file = os.open(path, os.O_RDWR)
        self._count = memoryview(mmap.mmap(self._file, 8)).cast("q")
        self._delays = open(f"{FOLDER}/{self._pid}.delays", "a", buffering=1)  # noqa: SIM115


_calls = _Calls()


def called(sent_at: float | None = None) -> None:
    """A handler ran. `sent_at` is when its job was about to be enqueued, by the monotonic clock."""
    _calls.note(sent_at)


def start_signal() -> None:
    """Say that everything is imported, and wait until the driver says go."""
    print("READY", flush=True)
    sys.stdin.readline()


def tell(**result: Any) -> None:
    print("RESULT " + json.dumps(result), flush=True)


async def _one_by_one(enqueue: Enqueue, producers: int, seconds: float) -> None:
    for number in range(_WARM_UP):
        await enqueue({"n": number})
    start_signal()
    begin = time.perf_counter()

    async def produce() -> int:
        made = 0
        while time.perf_counter() - begin < seconds:
            await enqueue({"n": made})
            made += 1
        return made

    made = sum(await asyncio.gather(*(produce() for _ in range(producers))))
    tell(jobs=made, seconds=time.perf_counter() - begin)


async def _bulk(enqueue_many: EnqueueMany, count: int, chunk: int) -> None:
    payloads = [{"n": number} for number in range(count)]
    await enqueue_many(payloads[:100])
    start_signal()
    begin = time.perf_counter()
    for start in range(0, count, chunk):
        await enqueue_many(payloads[start : start + chunk])
    tell(jobs=count, seconds=time.perf_counter() - begin)


async def _paced(enqueue: Enqueue, count: int, interval: float) -> None:
    """One job each interval; its payload has the moment before the enqueue."""
    await enqueue({"n": 0})
    start_signal()
    due = time.monotonic()
    for number in range(count):
        due += interval
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await enqueue({"n": number, "t": time.monotonic()})
    tell(jobs=count)


async def _flows(enqueue_flow: Enqueue, count: int) -> None:
    start_signal()
    for number in range(count):
        await enqueue_flow({"n": number})
    tell(jobs=count)


async def main(
    *,
    setup: Callable[[], Awaitable[Any]],
    enqueue: Enqueue | None = None,
    enqueue_many: EnqueueMany | None = None,
    enqueue_flow: Enqueue | None = None,
    work: Callable[[], Awaitable[Any]] | None = None,
) -> None:
    """Run what the command line says: setup, enqueue, bulk, flows, paced or work."""
    match sys.argv[1:]:
        case ["setup"]:
            await setup()
        case ["enqueue", producers, seconds] if enqueue:
            await _one_by_one(enqueue, int(producers), float(seconds))
        case ["bulk", count, chunk] if enqueue_many:
            await _bulk(enqueue_many, int(count), int(chunk))
        case ["flows", count] if enqueue_flow:
            await _flows(enqueue_flow, int(count))
        case ["paced", count, interval] if enqueue:
            await _paced(enqueue, int(count), float(interval))
        case ["work"] if work:
            start_signal()
            await work()
        case other:
            sys.exit(f"this system does not do {' '.join(other)}")
