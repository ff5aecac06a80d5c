"""Jobs per second of one worker over many queues, compared with the same jobs in one.

    .venv/bin/python -m benchmarks.queues [--jobs 40000] [--rounds 3] [--dsn DSN]

The same number of no-op async jobs, spread evenly over 1, 10, 100 and 1,000 queues that one worker
serves with equal weights; and 1,000 that it serves as `*`, without knowing their names. In one run and
interleaved. A claim is one statement however many queues there are.
"""

from __future__ import annotations

import tempfile
from functools import partial
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

_SLOTS = 2_000

CASES: dict[str, tuple[int, bool]] = {
    "1 queue": (1, True),
    "10 queues": (10, True),
    "100 queues": (100, True),
    "1,000 queues": (1_000, True),
    "1,000 queues, as *": (1_000, False),
}


async def one(dsn: str, queues: int, named: bool, count: int) -> Reading:
    hw = Headway(dsn)

    @hw.task
    async def noop(n: int) -> int:
        return n

    async with hw:
        await clean(hw)
        for start in range(0, count, 20_000):
            await noop.enqueue_many(
                noop.using(queue=f"queue-{n % queues}").call(n)
                for n in range(start, min(start + 20_000, count))
            )
        await settle_down(hw)
        served = {f"queue-{n}": 1 for n in range(queues)} if named else {"*": 1}
        meter = Meter(hw.dsn)
        try:
            return await drain(hw, count, meter, queues=served, concurrency=_SLOTS)
        finally:
            meter.close()


def main() -> None:
    options = arguments(__doc__, jobs=40_000, rounds=3).parse_args()
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        Headway(dsn).migrate_sync()
        print(f"{options.jobs:,} jobs, {options.rounds} rounds; {machine(dsn)}")
        readings = compare(
            {
                name: partial(one, dsn, queues, named, options.jobs)
                for name, (queues, named) in CASES.items()
            },
            options.rounds,
        )
    table(readings, "jobs")
    ratios(readings, "1 queue")


if __name__ == "__main__":
    main()
