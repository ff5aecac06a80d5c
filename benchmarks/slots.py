"""Few slots, and handlers in threads.

    .venv/bin/python -m benchmarks.slots [--jobs 20000] [--rounds 3] [--dsn DSN]

Ten slots and a handler that waits for a millisecond, against ten asyncio tasks that call the same
handler in turn without any queue. And plain functions, which run in threads, against the same functions
in a thread pool of the standard library.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.measure import (
    Meter,
    Reading,
    arguments,
    clean,
    compare,
    drain,
    machine,
    ratios,
    server,
    settle_down,
    table,
)
from headway import Headway

_SLOTS = 10
_THREADS = 100
WAITING, WAITING_BARE = "ten slots, 1 ms", "ten tasks, 1 ms, no queue"
PLAIN, PLAIN_BARE = "threads", "threads, no queue"


def app(dsn: str) -> Headway:
    hw = Headway(dsn)

    @hw.task
    async def waits(n: int) -> int:
        await asyncio.sleep(0.001)
        return n

    @hw.task
    def plain(n: int) -> int:
        return n

    return hw


async def worker(dsn: str, task: str, slots: int, count: int) -> Reading:
    """Return the rate of one worker over a backlog of this task."""
    async with app(dsn) as hw:
        await clean(hw)
        await hw.tasks[task].enqueue_many({"n": n} for n in range(count))
        await settle_down(hw)
        meter = Meter(hw.dsn)
        try:
            return await drain(hw, count, meter, concurrency=slots)
        finally:
            meter.close()


async def bare(dsn: str, count: int, run: Callable[[int], Awaitable[None]]) -> Reading:
    """Return the rate of the same handler without a queue."""
    meter = Meter(dsn)
    meter.start()
    await run(count)
    reading = meter.stop(count)
    meter.close()
    return reading


async def _in_tasks(count: int) -> None:
    async def slot() -> None:
        for _ in range(count // _SLOTS):
            await asyncio.sleep(0.001)

    await asyncio.gather(*(slot() for _ in range(_SLOTS)))


async def _in_threads(count: int) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(min(_THREADS, (os.cpu_count() or 1) + 4)) as pool:
        for start in range(0, count, _THREADS):
            turn = range(start, min(start + _THREADS, count))
            await asyncio.gather(*(loop.run_in_executor(pool, abs, n) for n in turn))


def main() -> None:
    options = arguments(__doc__, jobs=20_000, rounds=3).parse_args()
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        Headway(dsn).migrate_sync()
        print(f"{options.jobs:,} jobs, {options.rounds} rounds; {machine(dsn)}")
        count = options.jobs
        readings = compare(
            {
                WAITING_BARE: lambda: bare(dsn, count, _in_tasks),
                WAITING: lambda: worker(dsn, "waits", _SLOTS, count),
                PLAIN_BARE: lambda: bare(dsn, count, _in_threads),
                PLAIN: lambda: worker(dsn, "plain", _THREADS, count),
            },
            options.rounds,
        )
    table(readings, "jobs")
    ratios({name: readings[name] for name in (WAITING, WAITING_BARE)}, WAITING_BARE)
    ratios({name: readings[name] for name in (PLAIN, PLAIN_BARE)}, PLAIN_BARE)


if __name__ == "__main__":
    main()
