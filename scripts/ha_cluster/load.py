"""Workers and producers of one database, from the first job to the last."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from ha_cluster.processes import Processes, until
from headway import Headway

_WORKERS = 2
_KINDS = ("async", "sync")
_TABLE = """
create table effect (
  job_id uuid not null, step text not null, at timestamptz not null default clock_timestamp()
)
"""
_UNFINISHED = "select count(*) from headway.job where task in ('plain', 'tx', 'f3')"


class Load:
    """Two workers, an async producer and a sync producer on one database."""

    def __init__(self, name: str, dsn: str, direct: str, home: Path, processes: Processes) -> None:
        """`dsn` is what the programs under test use, `direct` what we look by."""
        self.name = name
        self.direct = direct
        self.plain = home / f"{name}-plain.txt"
        self.notes = {kind: home / f"{name}-{kind}.jsonl" for kind in _KINDS}
        self._dsn = dsn
        self._processes = processes
        self._workers: list[subprocess.Popen[bytes]] = []
        self._producers: list[subprocess.Popen[bytes]] = []

    def prepare(self) -> None:
        """Make the schema and the table of effects."""
        asyncio.run(_migrate(self._dsn))
        with psycopg.connect(self.direct, autocommit=True) as conn:
            conn.execute(_TABLE)

    def start_workers(self) -> None:
        command = [sys.executable, "-m", "headway", "worker", "ha_cluster.app", "-c", "20"]
        for n in range(_WORKERS):
            name = f"{self.name}-worker{n + 1}"
            self._workers.append(self._start(name, command))

    def start_producers(self) -> None:
        for kind, file in self.notes.items():
            command = [sys.executable, "-m", "ha_cluster.producer", kind, str(file)]
            self._producers.append(self._start(f"{self.name}-{kind}", command))

    def stop_producers(self) -> None:
        for producer in self._producers:
            producer.send_signal(signal.SIGTERM)

    def wait(self, within: float) -> None:
        """Return when the producers have ended and their jobs, too, or when the time is over."""
        for producer in self._producers:
            producer.wait(timeout=120)
        try:
            until(f"the end of all jobs in {self.name}", self._is_empty, within=within)
        except TimeoutError as error:
            print(f"ha: {error}", file=sys.stderr, flush=True)

    def stop_workers(self) -> None:
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)

    def ended_wrongly(self) -> int:
        """Return how many workers and producers ended otherwise than with exit code 0."""
        wrong = 0
        for process in (*self._workers, *self._producers):
            try:
                wrong += process.wait(timeout=90) != 0
            except subprocess.TimeoutExpired:
                wrong += 1
        return wrong

    def calls(self) -> list[dict[str, Any]]:
        """Return what the producers wrote down."""
        lines = [line for file in self.notes.values() for line in file.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "HEADWAY_DATABASE_URL": self._dsn,
            "HA_PLAIN": str(self.plain),
            "PYTHONUNBUFFERED": "1",
        }
        return self._processes.start(name, command, environment=environment)

    def _is_empty(self) -> bool:
        with psycopg.connect(self.direct, autocommit=True) as conn:
            row = conn.execute(_UNFINISHED).fetchone()
        return row == (0,)


async def _migrate(dsn: str) -> None:
    app = Headway(dsn)
    await app.migrate()
    await app.close()
