"""`python -m tests.soak MINUTES`: start the world, break it at random, let it finish, count."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql

from tests.soak.ledger import Ledger
from tests.soak.world import SCHEMA, World

SKIPPED = {name for name in os.environ.get("HEADWAY_SOAK_SKIP", "").split(",") if name}
"""Checks that are left out."""
_RETURNS_WITHIN = 60.0
_SHOWN = 12


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./test --soak", description=__doc__)
    parser.add_argument("minutes", type=float, help="how long things are broken")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--faults", help="only these, by name and with commas; `none` for none")
    parser.add_argument("--keep", action="store_true", help="keep the logs also if all is well")
    return parser.parse_args()


async def _soak(world: World, minutes: float, names: set[str]) -> None:
    """Everything up to the moment when it can be counted."""
    async with world.running():
        from tests.soak.faults import Storm
        from tests.soak.producers import Producers

        chance = random.Random(world.ledger.seed)
        producers = Producers(world, random.Random(chance.random()))
        producing = asyncio.create_task(producers.run())
        await Storm(world, chance, names).rage(minutes * 60)
        producers.stop()
        done, _ = await asyncio.wait([producing], timeout=_RETURNS_WITHIN)
        if not done:
            world.ledger.wrong.append(f"a producer's call did not return in {_RETURNS_WITHIN} s")
            producing.cancel()
        await asyncio.gather(producing, return_exceptions=not done)
        with suppress(TimeoutError):
            await asyncio.wait_for(producers.close(), _RETURNS_WITHIN)
        await _finish(world)
        await world.stop_workers()
        await asyncio.to_thread(_count, world)


async def _finish(world: World) -> None:
    """Nobody holds anything up any more: wait for the end of all jobs."""
    ledger, since = world.ledger, time.monotonic()
    ledger.cancels |= ledger.late
    async with world.connection() as conn:
        await conn.execute("select pause_schedule(name, 'soak') from schedule")
        await conn.execute("select resume(name) from control where kind = 'queue'")
        await conn.execute("select reset_limit(task => 'narrow'), reset_limit('slow')")
        await conn.execute("select cancel(id) from unnest(%s::uuid[]) id", (list(ledger.late),))
    within = 90 + max(slot.lease for slot in world.slots)
    while await world.live():
        if time.monotonic() - since > within:
            ledger.say(f"jobs are left after {within:.0f} s")
            break
        await asyncio.sleep(0.25)
    else:
        ledger.say(f"all jobs ended within {time.monotonic() - since:.0f} s")


def _count(world: World) -> None:
    """Compare the database, the journal and the ledger; write down what does not fit."""
    from tests.soak import conduct, counts, overlaps
    from tests.soak.journal import Journal

    ledger = world.ledger
    with psycopg.connect(world.dsn, autocommit=True) as db:
        db.execute(sql.SQL("set search_path = {}").format(sql.Identifier(SCHEMA)))
        evidence = counts.Evidence(
            db,
            ledger,
            Journal(world.journal),
            sorted(world.place.glob("worker-*.log")),
            world.place / "log",
        )
        states: dict[str, int] = {}
        for row in evidence.ended:
            states[row.state] = states.get(row.state, 0) + 1
        print(f"jobs: {len(evidence.ended)} {states}, runs: {len(evidence.journal.runs)}")
        print(f"faults: {sum(ledger.faults.values())} {dict(sorted(ledger.faults.items()))}")
        starts = sum(slot.starts for slot in world.slots)
        print(f"workers: {starts} started, the last with code of version {world.version}")
        for name, check in (counts.CHECKS | overlaps.CHECKS | conduct.CHECKS).items():
            if name in SKIPPED:
                print(f"  skipped  {name}")
                continue
            found = list(check(evidence))
            print(f"  {'FAILED' if found else 'holds '}   {name}: {(check.__doc__ or '').strip()}")
            different = Counter(found).most_common()
            for line, times in different[:_SHOWN]:
                print(f"           {line}{f' ({times} times)' if times > 1 else ''}")
            if len(different) > _SHOWN:
                print(f"           and {len(different) - _SHOWN} more")
            world.failed |= bool(found)


def main() -> int:
    """Run a soak; 1 if something is wrong."""
    given = _arguments()
    from tests.soak.faults import NAMES

    names = set(NAMES) if given.faults is None else set(given.faults.split(",")) - {"none"}
    if unknown := names - set(NAMES):
        sys.exit(f"there are no faults {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    place = Path(tempfile.mkdtemp(prefix="headway-soak-", dir="/tmp"))
    place.chmod(0o755)
    ledger = Ledger(place / "soak.log", given.seed)
    logging.basicConfig(filename=place / "producers.log")
    print(f"soak of {given.minutes:g} minutes, seed {given.seed}; logs in {place}", flush=True)
    long = given.minutes >= 10 or (given.faults is not None and "outage" in names)
    world = World(place, ledger, long=long)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends everything in order, too
    try:
        asyncio.run(_soak(world, given.minutes, names))
    except BaseException:
        world.failed = True
        raise
    finally:
        if world.failed:
            print(f"\nseed {given.seed}; the logs are in {place}; the last faults were:")
            print("\n".join(f"  {line}" for line in ledger.recent[-15:]))
        elif not given.keep:
            shutil.rmtree(place)
    return int(world.failed)


if __name__ == "__main__":
    sys.exit(main())
