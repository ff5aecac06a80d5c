"""What the benchmarks share: a server, a clean table, CPU and WAL readings, medians."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from headway import embedded

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
