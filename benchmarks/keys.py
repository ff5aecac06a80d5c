"""Jobs per second with concurrency keys, and while many other jobs are blocked.

    .venv/bin/python -m benchmarks.keys [--jobs 20000] [--blocked 100000] [--rounds 3] [--dsn DSN]

One worker over a backlog of no-op async jobs, in one run and interleaved: without keys; without keys
while 100,000 others wait behind two keys that nobody frees; with 1,000 keys, with a key for each job,
and with two keys of ten at a time. A key is worth its price only where it is asked for: the second
case must be as fast as the first.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg
import uvloop

from benchmarks.measure import (
    Meter,
    Reading,
    clean,
    drain,
    machine,
    median,
    server,
    settle_down,
    table,
)
from headway import Headway, Key

_SLOTS = 2_000

Keyed = Callable[[int], Key | None]
CASES: dict[str, tuple[Keyed, bool]] = {
    "no keys": (lambda n: None, False),
    "no keys, a line behind two keys": (lambda n: None, True),
    "1,000 keys": (lambda n: Key(f"key-{n % 1000}"), False),
    "a key each": (lambda n: Key(f"key-{n}"), False),
    "two keys, ten at a time": (lambda n: Key(f"key-{n % 2}", limit=10), False),
}


async def one(dsn: str, keyed: Keyed, line: bool, count: int, blocked: int) -> Reading:
    hw = Headway(dsn)

    @hw.task
    async def noop(n: int) -> int:
        return n

    @hw.task(queue="stuck")
    async def stuck(n: int) -> int:
        return n

    async with hw:
        await clean(hw)
        if line:
            await stuck.enqueue_many(
                stuck.using(concurrency_key=f"stuck-{n % 2}").call(n) for n in range(blocked)
            )
            await _hold(hw)
        await noop.enqueue_many(noop.using(concurrency_key=keyed(n)).call(n) for n in range(count))
        await settle_down(hw)
        meter = Meter(hw.dsn)
        try:
            return await drain(hw, count, meter, queues={"default": 1}, concurrency=_SLOTS)
        finally:
            meter.close()


async def _hold(hw: Headway) -> None:
    """The first of each line has its room, and nobody serves its queue."""
    async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
        await conn.execute(
            "update headway.job set state = 'r', holds = true where id in "
            "(select distinct on (key) id from headway.job where state = 'b' order by key, seq)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--blocked", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dsn")
    options = parser.parse_args()
    readings: dict[str, list[Reading]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        Headway(dsn).migrate_sync()
        print(
            f"{options.jobs:,} jobs, {options.blocked:,} blocked, {options.rounds} rounds; "
            f"{machine(dsn)}"
        )
        for number in range(options.rounds):
            for name, (keyed, line) in CASES.items():
                reading = uvloop.run(one(dsn, keyed, line, options.jobs, options.blocked))
                readings[name].append(reading)
                print(f"  round {number + 1}  {name:32} {reading.rate:10,.0f} jobs/s", flush=True)
    table(readings, "jobs")
    plain = median(readings["no keys"], "rate")
    print()
    for name, runs in list(readings.items())[1:]:
        print(f"{name} / no keys: {median(runs, 'rate') / plain:.2f}")


if __name__ == "__main__":
    main()
