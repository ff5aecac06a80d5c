"""The servers that systems run on, a database for each system, and readings of CPU and WAL."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.measure import cpu_of


class Ground:
    """A PostgreSQL server on this machine, and a Redis server if one is installed."""

    def __init__(self, dsn: str, redis: str | None) -> None:
        self.dsn = dsn
        self.redis = redis
        self._conn = psycopg.connect(dsn, autocommit=True)
        row = self._conn.execute(
            "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"
        ).fetchone()
        assert row is not None
        self._postmaster = int(row[0])

    def database(self, name: str, template: str | None = None) -> str:
        """Make a new database in place of the old one, and return its DSN."""
        self._conn.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )
        made = sql.SQL("create database {} template {}").format(
            sql.Identifier(name), sql.Identifier(template or "template0")
        )
        self._conn.execute(made)
        return make_conninfo(self.dsn, dbname=name)

    def clear(self) -> None:
        """Write out what is dirty before the clock runs; empty Redis."""
        self._conn.execute("checkpoint")
        if self.redis is not None:
            host, port = "127.0.0.1", int(self.redis.rpartition(":")[2].partition("/")[0])
            with socket.create_connection((host, port)) as connection:
                connection.sendall(b"FLUSHALL\r\n")
                connection.recv(64)

    def wal(self) -> int:
        row = self._conn.execute("select pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return int(row[0])

    def server_cpu(self) -> float:
        """Microseconds of CPU that the server's processes have used, those that ended included."""
        used = _with_ended_children(self._postmaster)
        return used + sum(cpu_of(pid) or 0.0 for pid in _children(self._postmaster))


def tree_cpu(pid: int) -> float:
    """Microseconds of CPU of a process and of those it started."""
    return (cpu_of(pid) or 0.0) + sum(tree_cpu(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    return []


def _with_ended_children(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    tick = 1_000_000 // os.sysconf("SC_CLK_TCK")
    return sum(int(value) for value in fields[11:15]) * tick


def url_of(dsn: str) -> str:
    """The same place as a URL, for libraries that read nothing else."""
    parts = conninfo_to_dict(dsn)
    user = quote(str(parts.get("user", "postgres")))
    place = f"host={quote(str(parts['host']), safe='')}&port={parts.get('port', 5432)}"
    return f"postgresql://{user}@/{parts['dbname']}?{place}"


@contextmanager
def redis_server() -> Iterator[str | None]:
    """Yield the URL of a Redis server that lives as long as this, or None if it cannot be installed."""
    program = shutil.which("redis-server") or _install_redis()
    if program is None:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        options = ("--port", str(port), "--save", "", "--dir", folder, "--bind", "127.0.0.1")
        process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()


def _install_redis() -> str | None:
    """Install it from Debian's packages where that is possible. Return its path."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["apt-get", "update"], check=False, **quiet)  # type: ignore[call-overload]
    subprocess.run(["apt-get", "install", "-y", "redis-server"], check=False, **quiet)  # type: ignore[call-overload]
    return shutil.which("redis-server")
