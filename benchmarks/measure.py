"""What the benchmarks share: a server, clean tables, a worker to drain them, readings, medians."""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from headway import Headway, embedded
from headway.engine.worker import Worker

_TICK = 1_000_000 // os.sysconf("SC_CLK_TCK")


@contextmanager
def server(dsn: str | None, root: Path) -> Iterator[str]:
    """The DSN to measure on: the one given, or an embedded server with its default durability."""
    if dsn is not None:
        yield dsn
        return
    with embedded.start(root) as own:
        yield own.dsn


@dataclass(slots=True)
class Reading:
    """One run: jobs, seconds, CPU of this process and of the server's backends, WAL."""

    jobs: int
    seconds: float
    python_us: float
    backend_us: float
    wal_bytes: float

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


class Meter:
    """Reads counters before and after a run, from a connection of its own."""

    def __init__(self, dsn: str) -> None:
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._own = self._conn.info.backend_pid

    def close(self) -> None:
        self._conn.close()

    def start(self) -> None:
        self._wal = self._lsn()
        self._before = self._backends()
        self._cpu = time.process_time()
        self._began = time.perf_counter()

    def stop(self, jobs: int) -> Reading:
        seconds = time.perf_counter() - self._began
        python = (time.process_time() - self._cpu) * 1e6
        backend = sum(us - self._before.get(pid, 0) for pid, us in self._backends().items())
        return Reading(
            jobs, seconds, python / jobs, backend / jobs, (self._lsn() - self._wal) / jobs
        )

    def _lsn(self) -> int:
        row = self._conn.execute("select pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return int(row[0])

    def _backends(self) -> dict[int, int]:
        """Microseconds of CPU by backend; nothing where the server is on another machine.

        A backend that ended between two readings is not counted: the measured run must keep its
        connections open until `stop`.
        """
        pids = self._conn.execute(
            "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> %s",
            (self._own,),
        ).fetchall()
        used: dict[int, int] = {}
        for (pid,) in pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            used[pid] = (int(fields[11]) + int(fields[12])) * _TICK
        return used


async def clean(hw: Headway) -> None:
    """A schema that is up to date and has no jobs."""
    await hw.migrate()
    async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
        await conn.execute(
            "truncate headway.job, headway.archive, headway.attempt, headway.unique_period"
        )


async def settle_down(hw: Headway) -> None:
    """What the server would do in its own time, done before the clock runs."""
    async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
        await conn.execute("vacuum analyze headway.job")
        await conn.execute("checkpoint")


async def drain(
    hw: Headway,
    count: int,
    meter: Meter,
    counted: Callable[[Mapping[str, int]], int] = lambda settled: sum(settled.values()),
    **options: Any,
) -> Reading:
    """One worker process, from its start until the last of `count` verdicts is written."""
    worker: Worker = hw.worker(**options)
    meter.start()
    running = asyncio.create_task(worker.run())
    while counted(worker.report.settled) < count:
        await asyncio.sleep(0.005)
    reading = meter.stop(count)
    worker.stop()
    await running
    return reading


def table(readings: Mapping[str, list[Reading]], unit: str) -> None:
    """Prints medians and spreads."""
    print(f"\n{'':32} {f'{unit}/s':>8}  {'spread':>18}  python  backend  WAL B  (medians, us)")
    for name, runs in readings.items():
        python, backend, wal = (median(runs, f) for f in ("python_us", "backend_us", "wal_bytes"))
        rates = f"{median(runs, 'rate'):8,.0f}  {spread(runs):>18}"
        print(f"{name:32} {rates}  {python:6.1f}  {backend:7.1f}  {wal:9,.0f}")


def median(readings: list[Reading], field: str) -> float:
    return statistics.median(getattr(reading, field) for reading in readings)


def spread(readings: list[Reading]) -> str:
    rates = sorted(reading.rate for reading in readings)
    return f"{rates[0]:,.0f} to {rates[-1]:,.0f}"


def machine(dsn: str) -> str:
    with psycopg.connect(dsn) as conn:
        row: Any = conn.execute(
            "select current_setting('server_version'), current_setting('synchronous_commit'), "
            "current_setting('fsync')"
        ).fetchone()
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, PostgreSQL {row[0]}, "
        f"synchronous_commit={row[1]}, fsync={row[2]}"
    )
