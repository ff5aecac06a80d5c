"""Samples the sessions of this process: which of them work, and what the others wait for.

A role sees its own sessions in pg_stat_activity, so no special right is needed. Where the server runs on
this machine, /proc also has the CPU that its processes used.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Self

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from headway.core.clock import monotonic, process_cpu, thread_cpu
from headway.store.connections.connect import CLIENT_SESSION, complete_dsn
from headway.store.faults import DRIVER_ERRORS, translate

_EVERY = 0.01
_NANOSECONDS = 1e9
_SESSIONS = """
select pid, wait_event_type, wait_event from pg_catalog.pg_stat_activity
where application_name = any(%s) and usename = current_user and datname = current_database()
  and pid <> pg_backend_pid()"""
_COMMIT_WAITS = ("wal", "syncrep", "commit")
"""Beginnings of wait events of a commit that is not durable yet, without case: names vary by version."""


@dataclass(slots=True)
class Activity:
    """One measured span of time: its seconds, and those that were spent by whom."""

    seconds: float = 0.0
    client_cpu: float = 0.0
    server_cpu: float | None = None
    """CPU of the server's processes, or None if they are on another machine."""
    core_wait: float | None = None
    """Seconds in which a process of ours was ready to run and had no core. None if nobody counts them."""
    samples: int = 0
    working: int = 0
    """Samples in which a session was active and did not wait."""
    committing: int = 0
    """Samples in which a session waited for the log or for a standby."""
    waits: Counter[str] = field(default_factory=Counter[str])
    """Samples by any other event that an active session waited for."""
    waiting: int = 0
    """Samples in which there was at least one of those."""

    def add(self, sessions: Iterable[tuple[int, str | None, str | None]]) -> None:
        """Count one sample."""
        self.samples += 1
        kinds = {kind_of_wait(kind, event) for _, kind, event in sessions}
        self.working += "" in kinds
        self.committing += "commit" in kinds
        others = kinds - {"", "commit", "client"}
        self.waits.update(others)
        self.waiting += bool(others)


def kind_of_wait(kind: str | None, event: str | None) -> str:
    """Return "" for a session that works, "commit", "client", or the event that it waits for.

    A session that is idle waits for the client.

    >>> kind_of_wait("IO", "WALSync"), kind_of_wait("Lock", "transactionid"), kind_of_wait(None, None)
    ('commit', 'Lock: transactionid', '')
    """
    if kind is None or event is None:
        return ""
    if kind == "Client":
        return "client"
    return "commit" if event.casefold().startswith(_COMMIT_WAITS) else f"{kind}: {event}"


class ActivityWatch:
    """Samples from a thread and a connection of its own, for as long as it is entered."""

    def __init__(self, conn: Connection[TupleRow], applications: list[str]) -> None:
        self._conn = conn
        self._applications = applications
        self._local = _is_here(conn)
        self._backends = frozenset[int]()
        self._current: Activity | None = None
        self._sampling_cpu = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="headway-bench", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    @contextmanager
    def over(self, activity: Activity) -> Generator[None]:
        """Add to `activity` whatever happens until the end of the block."""
        before, server = self._own(), self._server()
        began, self._current = monotonic(), activity
        try:
            yield
        finally:
            self._current = None
            activity.seconds += monotonic() - began
            now = self._own()
            activity.client_cpu += now.cpu - before.cpu
            waited = now.core_wait - before.core_wait
            if self._local:
                spent = [
                    after - server[pid] for pid, after in self._server().items() if pid in server
                ]
                activity.server_cpu = (activity.server_cpu or 0.0) + sum(one.cpu for one in spent)
                waited += sum(one.core_wait for one in spent)
            if _COUNTS_CORE_WAITS:
                activity.core_wait = (activity.core_wait or 0.0) + waited

    def _own(self) -> _Spent:
        """Return what this process spent, without the sampling."""
        return _Spent(process_cpu() - self._sampling_cpu, _spent_by(os.getpid()).core_wait)

    def _server(self) -> dict[int, _Spent]:
        return {pid: _spent_by(pid) for pid in self._backends} if self._local else {}

    def _sample(self) -> None:
        while not self._ended.wait(_EVERY):
            try:
                sessions = self._conn.execute(_SESSIONS, (self._applications,)).fetchall()
            except psycopg.Error:
                break  # the measured code will notice by itself
            self._backends = frozenset(pid for pid, *_ in sessions)
            if (activity := self._current) is not None:
                activity.add(sessions)  # type: ignore[arg-type, unused-ignore]
            self._sampling_cpu = thread_cpu()


@contextmanager
def opened_watch(dsn: str, applications: list[str]) -> Generator[ActivityWatch]:
    """Yield a watch over the sessions with these application names."""
    try:
        conn = psycopg.connect(complete_dsn(dsn), autocommit=True)
        conn.execute(CLIENT_SESSION)
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    with conn, ActivityWatch(conn, applications) as watch:
        yield watch


@dataclass(frozen=True, slots=True)
class _Spent:
    """Seconds that a process spent on a core, and waiting for one."""

    cpu: float
    core_wait: float

    def __sub__(self, other: _Spent) -> _Spent:
        return _Spent(self.cpu - other.cpu, self.core_wait - other.core_wait)


def _spent_by(pid: int) -> _Spent:
    """Return what the main thread of a process spent, as the scheduler counts it, or zeros."""
    try:
        cpu, waited, *_ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return _Spent(int(cpu) / _NANOSECONDS, int(waited) / _NANOSECONDS)
    except (OSError, ValueError):
        return _Spent(0.0, 0.0)


_COUNTS_CORE_WAITS = Path("/proc/self/schedstat").exists()


def _is_here(conn: Connection[TupleRow]) -> bool:
    """Return whether the session's process can be found on this machine.

    A forwarded port or a container has an address of this machine too, but other pids.
    """
    host = conn.info.host
    if not host.startswith(os.sep) and not _is_loopback(conn.info.hostaddr or host):
        return False
    try:
        title = Path(f"/proc/{conn.info.backend_pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return False
    return title.startswith("postgres") and f" {conn.info.dbname} " in title


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
