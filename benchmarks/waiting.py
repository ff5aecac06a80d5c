"""Jobs per second while a million other jobs wait, compared with none.

    .venv/bin/python -m benchmarks.waiting [--jobs 20000] [--waiting 1000000] [--blocked 100000]
        [--rounds 3] [--dsn DSN]

A worker over a backlog of no-op async jobs in a schema where nothing else is; where a million others are
scheduled for tomorrow; where a million are ready in a queue that nobody serves; and where 100,000 are
blocked behind a paused key. Each schema is filled once; then they take turns, in one run. Jobs that
cannot run now must cost nothing.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import psycopg
import uvloop

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
from headway import Headway, Limit

_SLOTS = 2_000
_NOTHING = "nothing else"

_INSERT = """
insert into {schema}.job (id, run_at, created_at, max_attempts, state, queue, task, input, key, key_limit)
select gen_random_uuid(), now() + %(later)s::interval, now(), 5, %(state)s, %(queue)s, 'sleeper',
       jsonb_build_object('n', n), %(key)s, %(key_limit)s
from generate_series(1, %(count)s) n
"""
_READY = {"later": "0", "state": "r", "queue": "elsewhere", "key": None, "key_limit": None}
CASES: dict[str, dict[str, str | int | None]] = {
    _NOTHING: {},
    "scheduled for tomorrow": _READY | {"later": "1 day", "state": "s", "queue": "default"},
    "ready in a queue nobody serves": _READY,
    "blocked behind a paused key": _READY
    | {"state": "b", "queue": "default", "key": "stuck", "key_limit": 0},
}


def app(dsn: str, schema: str) -> Headway:
    hw = Headway(dsn, schema=schema)

    @hw.task
    async def noop(n: int) -> int:
        return n

    @hw.task(limit=Limit(concurrency=100, key=lambda **_: "stuck"))
    async def sleeper(n: int) -> int:
        return n

    return hw


async def fill(dsn: str, schema: str, waiting: dict[str, str | int | None], count: int) -> None:
    async with app(dsn, schema) as hw:
        await clean(hw)
        if waiting["key"] is not None:
            await hw.controls.pause(key=str(waiting["key"]))
        async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
            insert = _INSERT.replace("{schema}", schema)
            await conn.execute(insert, {**waiting, "count": count})  # type: ignore[call-overload]


async def one(dsn: str, schema: str, count: int) -> Reading:
    async with app(dsn, schema) as hw:
        async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
            await conn.execute(f"truncate {schema}.archive")  # type: ignore[call-overload]
        await hw.tasks["noop"].enqueue_many({"n": n} for n in range(count))
        await settle_down(hw)
        meter = Meter(hw.dsn)
        try:
            return await drain(hw, count, meter, queues={"default": 1}, concurrency=_SLOTS)
        finally:
            meter.close()


def main() -> None:
    parser = arguments(__doc__, jobs=20_000, rounds=3)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--blocked", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        print(
            f"{options.jobs:,} jobs, {options.waiting:,} waiting, {options.blocked:,} blocked, "
            f"{options.rounds} rounds; {machine(dsn)}"
        )
        cases = {}
        for number, (name, waiting) in enumerate(CASES.items()):
            schema = f"waiting_{number}"
            Headway(dsn, schema=schema).migrate_sync()
            if waiting:
                count = options.blocked if waiting["state"] == "b" else options.waiting
                uvloop.run(fill(dsn, schema, waiting, count))
                print(f"  filled: {name}", flush=True)
            cases[name] = partial(one, dsn, schema, options.jobs)
        readings = compare(cases, options.rounds)
    table(readings, "jobs")
    ratios(readings, _NOTHING)


if __name__ == "__main__":
    main()
