"""Jobs per second of one worker over a backlog of no-op async jobs, results kept.

    .venv/bin/python -m benchmarks.throughput [--jobs 100000] [--rounds 3] [--slots 2000] [--dsn DSN]

In the same run, interleaved with it: the raw SQL loop, which is the worker's own claim and
settle statements back to back on one connection with nothing in between; and both again while
another session holds a snapshot open, so that nothing that dies can be removed. The pin is taken
after the backlog is in place and before the drain.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

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
from headway import Headway
from headway.core.verdict import Verdict
from headway.store.connections.connect import connect
from headway.store.connections.engine_connection import EngineConnection
from headway.store.documents import Ask, Settled, Share
from headway.store.statements import fleet, jobs

BATCH = 500


def app(dsn: str) -> Headway:
    hw = Headway(dsn)

    @hw.task
    async def noop(n: int) -> int:
        return n

    return hw


async def fill(hw: Headway, count: int) -> None:
    await clean(hw)
    noop = hw.tasks["noop"]
    for start in range(0, count, 20_000):
        await noop.enqueue_many({"n": n} for n in range(start, min(start + 20_000, count)))
    await settle_down(hw)


async def raw(hw: Headway, count: int, slots: int, meter: Meter) -> Reading:
    """Claim, settle, claim, settle: what the statements alone allow on one connection."""
    target = hw._session.target
    link = EngineConnection(target)
    worker = await link.run(fleet.register("raw", "-", slots, ["default"], ["noop"], 3600, None))
    verdict = Verdict("succeed", result=b"1")
    cursor = done = 0
    meter.start()
    while done < count:
        share = Share("default", BATCH, [Ask(0, cursor, BATCH, ("noop",))])
        claims = await link.run(jobs.claim(worker, [share], None))
        if not claims:
            break
        cursor = max(claim.seq for claim in claims)
        lost = await link.run(jobs.finish(target, [Settled(c, verdict) for c in claims], None))
        assert not lost
        done += len(claims)
    reading = meter.stop(done)
    await link.run(fleet.retire(worker, None))
    await link.close()
    return reading


async def headway(hw: Headway, count: int, slots: int, meter: Meter) -> Reading:
    """One worker process, from its start until the last verdict is written."""
    return await drain(hw, count, meter, concurrency=slots, batch=BATCH)


Run = Callable[[Headway, int, int, Meter], Coroutine[Any, Any, Reading]]
CASES: dict[str, tuple[Run, bool]] = {
    "raw SQL": (raw, False),
    "headway": (headway, False),
    "raw SQL, snapshot held": (raw, True),
    "headway, snapshot held": (headway, True),
}


async def one(dsn: str, run: Run, pinned: bool, count: int, slots: int) -> Reading:
    async with AsyncExitStack() as stack:
        hw = await stack.enter_async_context(app(dsn))
        await fill(hw, count)
        if pinned:
            pin = await stack.enter_async_context(await connect(hw._session.target))
            await pin.execute("begin isolation level repeatable read")
            await pin.execute("select count(*) from headway.worker")
        meter = Meter(hw.dsn)
        try:
            return await run(hw, count, slots, meter)
        finally:
            meter.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2_000)
    parser.add_argument("--dsn")
    options = parser.parse_args()
    readings: dict[str, list[Reading]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        Headway(dsn).migrate_sync()
        print(
            f"{options.jobs:,} jobs, {options.slots} slots, {options.rounds} rounds; {machine(dsn)}"
        )
        for number in range(options.rounds):
            for name, (run, pinned) in CASES.items():
                reading = uvloop.run(one(dsn, run, pinned, options.jobs, options.slots))
                readings[name].append(reading)
                print(f"  round {number + 1}  {name:24} {reading.rate:10,.0f} jobs/s", flush=True)
    table(readings, "jobs")
    rate = {name: median(runs, "rate") for name, runs in readings.items()}
    print(f"\nheadway / raw SQL: {rate['headway'] / rate['raw SQL']:.2f}")
    print(f"snapshot held / not: {rate['headway, snapshot held'] / rate['headway']:.2f}")


if __name__ == "__main__":
    main()
