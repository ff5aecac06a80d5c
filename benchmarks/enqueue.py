"""Enqueueing against bare SQL by the same driver: one by one, by sixteen producers, and in bulk.

    .venv/bin/python -m benchmarks.enqueue [--jobs 400] [--rounds 9] [--bulk 5000] [--dsn DSN]

- One by one: every operation of every case in turn, in random order, so that all meet the same machine.
  The figure is the median time of an operation, and its ratio to the bare INSERT.
- In the caller's transaction: the same on connections with an open transaction, which is rolled back.
- Sixteen producers: asyncio tasks in one process, in rounds. `no wake-up` has notify=False.
- Bulk: one call for all jobs, against COPY of the same rows, in rounds.

The tables are in a schema of their own, which is dropped at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import uvloop

from benchmarks.measure import machine, server
from headway import Headway
from headway.core.ids import new_id, new_ids

SCHEMA = "headway_enqueue"
PRODUCERS = 16
COLUMNS = "(id, run_at, created_at, max_attempts, priority, state, queue, task, input)"
INSERT = (
    f"insert into {SCHEMA}.job {COLUMNS} "
    "values (%s, now(), now(), %s::smallint, %s::smallint, 'r', %s, %s, %s::jsonb)"
)

Operation = Callable[[int], Awaitable[object]]


def app(dsn: str, *, notify: bool = True) -> Headway:
    hw = Headway(dsn, schema=SCHEMA, notify=notify, pool_size=PRODUCERS)

    @hw.task
    async def noop(n: int) -> int:
        return n

    return hw


def row(n: int) -> tuple[Any, ...]:
    return new_id(), 20, 0, "default", "noop", f'{{"n": {n}}}'


async def connected(dsn: str, *, autocommit: bool = True) -> psycopg.AsyncConnection[Any]:
    conn = await psycopg.AsyncConnection.connect(dsn, autocommit=autocommit)
    conn.prepare_threshold = 0
    return conn


# -- one by one -----------------------------------------------------------------------------------


async def in_turn(cases: Mapping[str, Operation], count: int) -> dict[str, list[float]]:
    """The microseconds of each operation. Every case runs once in each turn."""
    took: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases.items())
    for number in range(count + 20):
        random.shuffle(order)
        for name, operation in order:
            began = time.perf_counter()
            await operation(number)
            if number >= 20:
                took[name].append((time.perf_counter() - began) * 1e6)
    return took


async def one_by_one(dsn: str, count: int) -> None:
    hw, quiet = app(dsn), app(dsn, notify=False)
    noop, still = hw.tasks["noop"], quiet.tasks["noop"]
    bare, sync_bare = await connected(dsn), psycopg.connect(dsn, autocommit=True)
    sync_bare.prepare_threshold = 0
    cursor, sync_cursor = bare.cursor(), sync_bare.cursor()

    def sync() -> dict[str, list[float]]:
        """The same without a loop, in a thread."""
        cases: dict[str, Callable[[int], object]] = {
            "bare INSERT": lambda n: sync_cursor.execute(INSERT, row(n)),
            "headway": lambda n: noop.enqueue_sync(n=n),
        }
        took: dict[str, list[float]] = {name: [] for name in cases}
        for number in range(count + 20):
            for name in random.sample(list(cases), len(cases)):
                began = time.perf_counter()
                cases[name](number)
                if number >= 20:
                    took[name].append((time.perf_counter() - began) * 1e6)
        return took

    async with hw, quiet:
        report(
            "one by one, committed",
            await in_turn(
                {
                    "bare INSERT": lambda n: cursor.execute(INSERT, row(n)),
                    "headway": lambda n: noop.enqueue(n=n),
                    "headway, no wake-up": lambda n: still.enqueue(n=n),
                },
                count,
            ),
        )
        report("one by one, committed, sync", await asyncio.to_thread(sync))
        own, passed = await connected(dsn, autocommit=False), await connected(dsn, autocommit=False)
        inside, bound = own.cursor(), noop.using(conn=passed)
        report(
            "in the caller's transaction",
            await in_turn(
                {
                    "bare INSERT": lambda n: inside.execute(INSERT, row(n)),
                    "headway": lambda n: bound.enqueue(n=n),
                    "headway, using() each time": lambda n: noop.using(conn=passed).enqueue(n=n),
                },
                3 * count,
            ),
        )
    for conn in (bare, own, passed):
        await conn.close()
    sync_bare.close()


# -- sixteen producers ----------------------------------------------------------------------------


async def producers(dsn: str, count: int, rounds: int) -> None:
    hw, quiet = app(dsn), app(dsn, notify=False)
    conns = [await connected(dsn) for _ in range(PRODUCERS)]
    cursors = [conn.cursor() for conn in conns]

    def of(task: Any) -> list[Operation]:
        return [lambda n: task.enqueue(n=n)] * PRODUCERS

    cases: dict[str, list[Operation]] = {
        "bare INSERT": [lambda n, c=c: c.execute(INSERT, row(n)) for c in cursors],  # type: ignore[misc]
        "headway, no wake-up": of(quiet.tasks["noop"]),
        "headway": of(hw.tasks["noop"]),
    }

    async def produce(operation: Operation) -> None:
        for number in range(count):
            await operation(number)

    async with hw, quiet:
        took: dict[str, list[float]] = {name: [] for name in cases}
        for number in range(rounds + 1):
            for name in random.sample(list(cases), len(cases)):
                began = time.perf_counter()
                await asyncio.gather(*[produce(operation) for operation in cases[name]])
                if number:
                    took[name].append((time.perf_counter() - began) / (count * PRODUCERS) * 1e6)
    report(f"{PRODUCERS} producers", took)
    report("the same against no wake-up", took, "headway, no wake-up")
    for conn in conns:
        await conn.close()


# -- bulk -----------------------------------------------------------------------------------------


async def bulk(dsn: str, count: int, rounds: int) -> None:
    hw = app(dsn)
    noop, conn = hw.tasks["noop"], await connected(dsn)

    async def copy(calls: Sequence[Mapping[str, int]]) -> None:
        now = datetime.now(UTC).isoformat()
        rows = [
            f'{job_id}\t{now}\t{now}\t20\t0\tr\tdefault\tnoop\t{{"n": {call["n"]}}}\n'
            for job_id, call in zip(new_ids(len(calls)), calls, strict=True)
        ]
        async with conn.cursor().copy(f"copy {SCHEMA}.job {COLUMNS} from stdin") as stream:
            await stream.write("".join(rows))

    async def headway(calls: Sequence[Mapping[str, int]]) -> None:
        await noop.enqueue_many(calls)

    cases = {"COPY": copy, "enqueue_many": headway}
    took: dict[str, list[float]] = {name: [] for name in cases}
    used: dict[str, list[float]] = {name: [] for name in cases}
    async with hw:
        for number in range(rounds + 1):
            for name in random.sample(list(cases), len(cases)):
                calls = [{"n": n} for n in range(count)]
                cpu, began = time.process_time(), time.perf_counter()
                await cases[name](calls)
                if number:
                    took[name].append((time.perf_counter() - began) / count * 1e6)
                    used[name].append((time.process_time() - cpu) / count * 1e6)
    report(f"bulk, {count:,} a call", took)
    for name, values in used.items():
        print(f"  Python CPU of {name:24} {statistics.median(values):6.2f} us a job")
    await conn.close()


def report(title: str, took: Mapping[str, list[float]], against: str | None = None) -> None:
    """Print medians with their quartiles, and the ratio to one case, which is the first if not named."""
    reference = statistics.median(took[against or next(iter(took))])
    print(f"\n{title}")
    for name, values in took.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(
            f"  {name:30} {middle:8.1f} us ({low:.1f} to {high:.1f})  {1e6 / middle:9,.0f}/s  "
            f"{reference / middle:.2f}"
        )


async def measure(dsn: str, options: argparse.Namespace) -> None:
    await app(dsn).migrate()
    try:
        await one_by_one(dsn, options.jobs)
        await producers(dsn, max(options.jobs // 8, 10), options.rounds)
        await bulk(dsn, options.bulk, options.rounds)
    finally:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            await conn.execute(f"drop schema if exists {SCHEMA} cascade")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--bulk", type=int, default=5_000)
    parser.add_argument("--dsn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        print(machine(dsn))
        uvloop.run(measure(dsn, options))


if __name__ == "__main__":
    main()
