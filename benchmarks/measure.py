"""The parts that benchmarks share: a server, clean tables, workers to drain them, readings, ratios."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg
import uvloop

from headway import Headway, embedded
from headway.engine.worker import Worker
from headway.store.connections.engine_connection import EngineConnection

_TICK = 1_000_000 // os.sysconf("SC_CLK_TCK")
_WORKER_STARTS_WITHIN = 60
_WAL_FILES = 32


@contextmanager
def server(dsn: str | None, root: Path) -> Iterator[str]:
    """The DSN to measure on: the one given, or an embedded server with its default durability."""
    if dsn is not None:
        yield dsn
        return
    with embedded.start(root) as own:
        _break_in(own.dsn)
        yield own.dsn


def _break_in(dsn: str) -> None:
    """A new server makes each file of its WAL by writing 16 MB of zeros: 50 ms of CPU and a sync, in
    whatever is measured just then. One that has run for a while uses its old files again, and so does
    this one from here on."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"alter system set min_wal_size = '{_WAL_FILES * 16} MB'")
        conn.execute("select pg_reload_conf()")
        for _ in range(_WAL_FILES):
            conn.execute("select pg_logical_emit_message(false, '', '')")
            conn.execute("select pg_switch_wal()")
        conn.execute("checkpoint")


@dataclass(slots=True)
class Reading:
    """One run: jobs, seconds, and for each job CPU of Python and of the server's backends, WAL,
    round trips and statements."""

    jobs: int
    seconds: float
    python_us: float
    backend_us: float
    wal_bytes: float
    round_trips: float = 0
    statements: float = 0

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.python_us + self.backend_us


class Traffic:
    """Return what all links of this process have sent since the first count."""

    round_trips = 0
    statements = 0

    @classmethod
    def count(cls) -> None:
        """Begins to count; told again, goes on."""
        plain = EngineConnection.run_all
        if hasattr(plain, "__wrapped__"):
            return

        @wraps(plain)
        async def counted(self: EngineConnection, *statements: Any) -> list[Any]:
            cls.round_trips += 1
            cls.statements += len(statements)
            return await plain(self, *statements)

        EngineConnection.run_all = counted  # type: ignore[method-assign]


class Meter:
    """Reads counters before and after a run, from a connection of its own."""

    def __init__(self, dsn: str) -> None:
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._own = self._conn.info.backend_pid
        Traffic.count()

    def close(self) -> None:
        self._conn.close()

    def start(self) -> None:
        self._wal = self._lsn()
        self._before = self.backends()
        self._sent = Traffic.round_trips, Traffic.statements
        self._cpu = time.process_time()
        self._began = time.perf_counter()

    def stop(self, jobs: int) -> Reading:
        seconds = time.perf_counter() - self._began
        python = (time.process_time() - self._cpu) * 1e6
        backend = sum(us - self._before.get(pid, 0) for pid, us in self.backends().items())
        return Reading(
            jobs,
            seconds,
            python / jobs,
            backend / jobs,
            (self._lsn() - self._wal) / jobs,
            (Traffic.round_trips - self._sent[0]) / jobs,
            (Traffic.statements - self._sent[1]) / jobs,
        )

    def backends(self, name: str = "%") -> dict[int, float]:
        """Microseconds of CPU by backend; nothing where the server is on another machine.

        A backend that ended between two readings is not counted: the measured run must keep its
        connections open until `stop`. Those of one worker have its pid in their `name`.
        """
        pids = self._conn.execute(
            "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> %s "
            "and application_name like %s",
            (self._own, name),
        ).fetchall()
        return {pid: us for (pid,) in pids if (us := cpu_of(pid)) is not None}

    def _lsn(self) -> int:
        row = self._conn.execute("select pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return int(row[0])


def cpu_of(pid: int) -> float | None:
    """Microseconds of CPU that a process has used; none if it is not there.

    Read from the scheduler's counters, in nanoseconds, if the kernel has them; else in ticks.
    """
    threads = Path(f"/proc/{pid}/task")
    try:
        used = [int((one / "schedstat").read_text().split()[0]) for one in threads.iterdir()]
        return sum(used) / 1000
    except OSError:
        pass
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return float((int(fields[11]) + int(fields[12])) * _TICK)


# -- before a run ---------------------------------------------------------------------------------


async def clean(hw: Headway) -> None:
    """A schema that is up to date and has neither jobs nor settings."""
    await hw.migrate()
    tables = "job, archive, attempt, unique_period, control, bucket, start, tally, total, census"
    schema = hw._session.target.schema
    await _run(hw, f"truncate {', '.join(f'{schema}.{name}' for name in tables.split(', '))}")


async def settle_down(hw: Headway) -> None:
    """Do the work that the server would do in its own time, before the clock runs."""
    await _run(hw, f"vacuum analyze {hw._session.target.schema}.job", "checkpoint")


async def _run(hw: Headway, *statements: str) -> None:
    async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
        for statement in statements:
            await conn.execute(statement)  # type: ignore[call-overload]


# -- runs -----------------------------------------------------------------------------------------


async def drain(
    hw: Headway,
    count: int,
    meter: Meter,
    counted: Callable[[Mapping[str, int]], int] = lambda settled: sum(settled.values()),
    **options: Any,
) -> Reading:
    """One worker in this process, from its start until the last of `count` verdicts is written."""
    worker: Worker = hw.worker(**options)
    meter.start()
    running = asyncio.create_task(worker.run())
    while counted(worker.report.settled) < count and not running.done():
        await asyncio.sleep(0.005)
    reading = meter.stop(count)
    worker.stop()
    await running
    return reading


def drain_by(
    processes: int,
    app: Callable[[str], Headway],
    dsn: str,
    count: int,
    meter: Meter,
    **options: Any,
) -> Reading:
    """As `drain`, by several processes: from the moment that all of them are told to begin.

    `app` makes what they serve, and is sent to them: a function of a module.
    """
    spawn = multiprocessing.get_context("spawn")
    begin, end, ready = spawn.Event(), spawn.Event(), spawn.Semaphore(0)
    tellings = [spawn.Array("d", 4, lock=False) for _ in range(processes)]
    workers = [
        spawn.Process(target=_serve, args=(app, dsn, options, ready, begin, end, telling))
        for telling in tellings
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        if not ready.acquire(timeout=_WORKER_STARTS_WITHIN):
            raise TimeoutError("a worker process did not start")
    meter.start()
    begin.set()
    while sum(telling[0] for telling in tellings) < count:
        if not all(worker.is_alive() for worker in workers):
            raise RuntimeError("a worker process ended before its time")
        time.sleep(0.005)
    reading = meter.stop(count)
    _, python, trips, statements = (sum(column) for column in zip(*tellings, strict=True))
    reading.python_us = python / count
    reading.round_trips, reading.statements = trips / count, statements / count
    end.set()
    for worker in workers:
        worker.join()
    return reading


def _serve(
    app: Callable[[str], Headway],
    dsn: str,
    options: dict[str, Any],
    ready: Any,
    begin: Any,
    end: Any,
    telling: Any,
) -> None:
    async def main() -> None:
        Traffic.count()
        hw = app(dsn)
        worker: Worker = hw.worker(**options)
        ready.release()
        begin.wait()
        began = time.process_time()
        running = asyncio.create_task(worker.run())
        while not end.is_set() and not running.done():
            settled = float(worker.report.total)
            used = (time.process_time() - began) * 1e6
            telling[:] = [settled, used, float(Traffic.round_trips), float(Traffic.statements)]
            await asyncio.sleep(0.005)
        worker.stop()
        await running
        await hw.close()

    uvloop.run(main())


Case = Callable[[], Coroutine[Any, Any, Reading]]


def compare(cases: Mapping[str, Case], rounds: int, unit: str = "jobs") -> dict[str, list[Reading]]:
    """Runs every case once a round, every other round from the last to the first."""
    readings: dict[str, list[Reading]] = {name: [] for name in cases}
    for number in range(rounds):
        for name in list(cases) if number % 2 == 0 else reversed(list(cases)):
            reading = uvloop.run(cases[name]())
            readings[name].append(reading)
            print(f"  round {number + 1}  {name:40} {reading.rate:10,.0f} {unit}/s", flush=True)
    return readings


# -- telling --------------------------------------------------------------------------------------


def table(readings: Mapping[str, list[Reading]], unit: str) -> None:
    """Prints medians and spreads."""
    wide = max(32, *(len(name) for name in readings))
    print(
        f"\n{'':{wide}} {f'{unit}/s':>8}  {'spread':>18}  python  backend      WAL B  (medians, us)"
        f"  trips  statements (of 1,000)"
    )
    for name, runs in readings.items():
        python, backend, wal = (median(runs, f) for f in ("python_us", "backend_us", "wal_bytes"))
        rates = f"{median(runs, 'rate'):8,.0f}  {spread(runs):>18}"
        trips, statements = (1000 * median(runs, f) for f in ("round_trips", "statements"))
        print(
            f"{name:{wide}} {rates}  {python:6.1f}  {backend:7.1f}  {wal:9,.0f}"
            f"{trips:21.1f}{statements:12.1f}"
        )


def ratios(readings: Mapping[str, list[Reading]], against: str) -> None:
    """Prints how each case compares with one of them, round by round: medians and spreads."""
    print(f"\nagainst {against}, round by round: rate, CPU per job (Python and PostgreSQL)")
    for name, runs in readings.items():
        if name == against:
            continue
        pairs = list(zip(runs, readings[against], strict=True))
        rate = [run.rate / other.rate for run, other in pairs]
        cpu = [run.cpu_us / other.cpu_us for run, other in pairs if other.cpu_us]
        print(f"  {name:44} {_ratio(rate)}   {_ratio(cpu)}")


def _ratio(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def median(readings: list[Reading], field: str) -> float:
    return statistics.median(getattr(reading, field) for reading in readings)


def spread(readings: list[Reading]) -> str:
    rates = sorted(reading.rate for reading in readings)
    return f"{rates[0]:,.0f} to {rates[-1]:,.0f}"


def arguments(doc: str, *, jobs: int, rounds: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--dsn")
    return parser


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
