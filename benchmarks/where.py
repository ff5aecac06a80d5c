"""Where each microsecond of a drain goes: the server by statement, WAL by record, Python by module.

    .venv/bin/python -m benchmarks.where [--jobs 100000] [--slots 2000] [--flows]

One worker drains no-op jobs on an embedded server with pg_stat_statements and pg_walinspect. Times of
statements are as the server counts them, with planning. Python is sampled every millisecond of its CPU
time, on asyncio's own event loop, because uvloop hides its frames.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, LiteralString

import psycopg

from benchmarks import flows, throughput
from benchmarks.measure import Meter, Reading, drain, machine, server
from headway import Headway, embedded

_STATEMENTS: LiteralString = """
select (total_exec_time + total_plan_time) * 1000, calls, query from pg_stat_statements
where dbid = (select oid from pg_database where datname = current_database())
order by 1 desc limit 12"""
_WAL: LiteralString = """
select "resource_manager/record_type", count, combined_size
from pg_get_wal_stats(%s::pg_lsn, pg_current_wal_flush_lsn(), true) where count > 0
order by combined_size desc limit 16"""


class Samples:
    """Samples of what the main thread does, one for each millisecond of its CPU time."""

    def __init__(self) -> None:
        self.counts = Counter[str]()

    @contextmanager
    def taken(self) -> Iterator[None]:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        self.counts[_place(frame)] += 1


def _place(frame: FrameType | None) -> str:
    """Return the innermost module of ours on this stack, and the library that it has called."""
    library = None if frame is None else _library(frame)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("headway."):
            return name if library is None else f"{name} in {library}"
        frame = frame.f_back
    return "event loop" if library is None else library


def _library(frame: FrameType) -> str | None:
    name = frame.f_globals.get("__name__", "").partition(".")[0]
    return name if name in ("psycopg", "asyncio", "msgspec", "json") else None


async def _run(dsn: str, count: int, slots: int, *, steps: bool) -> tuple[Reading, Samples, str]:
    kind: Any = flows if steps else throughput
    async with kind.app(dsn) as hw:
        await kind.fill(hw, count)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("select pg_stat_statements_reset()")
            row: Any = conn.execute("select pg_current_wal_flush_lsn()::text").fetchone()
        meter, samples = Meter(hw.dsn), Samples()
        with samples.taken():
            reading = await drain(
                hw, count, meter, lambda settled: settled.get("succeed", 0), concurrency=slots
            )
        meter.close()
        return reading, samples, row[0]


def _show(dsn: str, count: int, reading: Reading, samples: Samples, since: str) -> None:
    print(
        f"{reading.rate:,.0f} a second; for each: Python {reading.python_us:.1f} us, "
        f"PostgreSQL {reading.backend_us:.1f} us, WAL {reading.wal_bytes:,.0f} bytes\n"
    )
    with psycopg.connect(dsn, autocommit=True) as conn:
        print("PostgreSQL by statement: us for each, calls")
        for microseconds, calls, query in conn.execute(_STATEMENTS).fetchall():
            if microseconds / count >= 0.05:
                print(f"  {microseconds / count:8.2f} {calls:8}  {_first_words(query)}")
        print("\nWAL by record: bytes for each, records for each")
        for record, number, size in conn.execute(_WAL, (since,)).fetchall():
            print(f"  {float(size) / count:8.1f} {number / count:8.2f}  {record}")
    total = sum(samples.counts.values())
    print("\nPython by module: us of CPU for each")
    for place, number in samples.counts.most_common(20):
        print(f"  {number / total * reading.python_us:8.2f}  {place}")


def _first_words(query: str) -> str:
    """Return the first comment of a statement, or its beginning."""
    return " ".join(query.split())[:90]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=2_000)
    parser.add_argument("--flows", action="store_true", help="flows of five steps")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with (
            embedded.start(Path(folder)) as first,
            psycopg.connect(first.dsn, autocommit=True) as c,
        ):
            c.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
            c.execute("alter system set pg_stat_statements.track_planning = on")
        with server(None, Path(folder)) as dsn:
            with psycopg.connect(dsn, autocommit=True) as conn:
                conn.execute("create extension if not exists pg_stat_statements")
                conn.execute("create extension if not exists pg_walinspect")
            Headway(dsn).migrate_sync()
            print(machine(dsn))
            count = options.jobs
            run = _run(dsn, count, options.slots, steps=options.flows)
            reading, samples, since = asyncio.run(run)
            _show(dsn, count, reading, samples, since)


if __name__ == "__main__":
    main()
