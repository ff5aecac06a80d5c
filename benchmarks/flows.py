"""Flows of five steps per second, compared with the same work as raw SQL.

    .venv/bin/python -m benchmarks.flows [--flows 10000] [--rounds 3]

Headway: one worker, five steps that each pass a number to the next. Raw SQL: the worker's own claim,
four times advance and finish, in batches back to back on one connection. `benchmarks/run` compares
flows with those of peers.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

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
from headway import Headway, Next
from headway.core.flow import Advance
from headway.core.verdict import Verdict
from headway.store.connections.engine_connection import EngineConnection
from headway.store.documents import Ask, Settled, Share
from headway.store.statements import fleet, jobs

STEPS = 5
_BATCH = 500
_SLOTS = 2_000


def app(dsn: str) -> Headway:
    hw = Headway(dsn)
    flow = hw.flow("five")

    @flow.step
    async def one(n: int) -> Next:
        return two.next(n + 1)

    @flow.step
    async def two(n: int) -> Next:
        return three.next(n + 1)

    @flow.step
    async def three(n: int) -> Next:
        return four.next(n + 1)

    @flow.step
    async def four(n: int) -> Next:
        return five.next(n + 1)

    @flow.step
    async def five(n: int) -> int:
        return n + 1

    return hw


async def fill(hw: Headway, count: int) -> None:
    await clean(hw)
    await hw.tasks["five"].enqueue_many({"n": n} for n in range(count))
    await settle_down(hw)


async def headway(dsn: str, count: int) -> Reading:
    async with app(dsn) as hw:
        await fill(hw, count)
        meter = Meter(hw.dsn)
        try:
            return await drain(
                hw, count, meter, lambda settled: settled.get("succeed", 0), concurrency=_SLOTS
            )
        finally:
            meter.close()


async def raw(dsn: str, count: int) -> Reading:
    """Return the rate of the statements alone, on one connection."""
    async with app(dsn) as hw:
        await fill(hw, count)
        target, meter = hw._session.target, Meter(hw.dsn)
        link = EngineConnection(target)
        steps = ["one", "two", "three", "four", "five"]
        known = tuple(f"five/{step}" for step in steps)
        worker = await link.run(fleet.register("raw", "-", 1, ["default"], known, 3600, None))
        cursor = done = 0
        meter.start()
        while done < count:
            share = Share("default", _BATCH, [Ask(0, cursor, _BATCH, known)])
            claims = await link.run(jobs.claim(worker, [share], None))
            cursor = max(claim.seq for claim in claims)
            moving = [
                Settled(claim, Verdict("advance", advance=_to(steps[steps.index(claim.step) + 1])))
                for claim in claims
                if claim.step != steps[-1]
            ]
            ending = [
                Settled(claim, Verdict("succeed", result=b"1"))
                for claim in claims
                if claim.step == steps[-1]
            ]
            if moving:
                assert not await link.run(jobs.advance(target, moving, None))
            if ending:
                assert not await link.run(jobs.finish(target, ending, None))
            done += len(ending)
        reading = meter.stop(done)
        await link.run(fleet.retire(worker, None))
        await link.close()
        meter.close()
        return reading


def _to(step: str) -> Advance:
    return Advance(
        step=step,
        input=b'{"n":1}',
        delay=0,
        queue="default",
        priority=0,
        max_attempts=5,
        key=None,
        key_limit=None,
        ordered=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dsn")
    options = parser.parse_args()
    cases: dict[str, Callable[[str, int], Awaitable[Reading]]] = {
        "raw SQL": raw,
        "headway": headway,
    }
    readings: dict[str, list[Reading]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        Headway(dsn).migrate_sync()
        print(f"{options.flows:,} flows of five steps, {options.rounds} rounds; {machine(dsn)}")
        for number in range(options.rounds):
            for name, run in cases.items():
                reading = uvloop.run(run(dsn, options.flows))
                readings[name].append(reading)
                print(f"  round {number + 1}  {name:32} {reading.rate:10,.0f} flows/s", flush=True)
    table(readings, "flows")
    rate = {name: median(runs, "rate") for name, runs in readings.items()}
    print(f"\nheadway / raw SQL: {rate['headway'] / rate['raw SQL']:.2f}")


if __name__ == "__main__":
    main()
