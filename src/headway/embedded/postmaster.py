"""The server that runs on a data directory, or ran on it last, according to its files."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from headway.embedded import watchdog

_STOP_TIMEOUT = 30.0


@dataclass(frozen=True)
class Postmaster:
    pid: int
    data: str
    port: str
    socket_dir: str
    status: str

    @staticmethod
    def read(data: Path) -> Postmaster | None:
        pid, where, _, port, socket_dir, _, _, status, *_ = [*watchdog.pidfile(data), *[""] * 8]
        return Postmaster(int(pid), where, port, socket_dir, status) if pid.isdecimal() else None

    @property
    def dsn(self) -> str:
        # Name the port, so that PGPORT is ignored.
        return f"postgresql://postgres@/postgres?host={quote(self.socket_dir)}&port={self.port}"

    def serves(self, data: Path) -> bool:
        """Return whether the server runs on `data`, not on an original of which `data` is a copy."""
        try:
            return os.path.samefile(self.data, data)
        except FileNotFoundError:
            return False

    def answers(self) -> bool:
        """Return whether the server listens. A pid proves nothing: it may be reused, or a zombie's."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            try:
                probe.connect(f"{self.socket_dir}/.s.PGSQL.{self.port}")
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            except (TimeoutError, BlockingIOError):
                pass  # too busy to accept, but running
            return True

    def stop(self, data: Path) -> None:
        """Stop a server whose watchdog was killed. It must have answered: then the pid is its own."""
        for number in (signal.SIGINT, signal.SIGQUIT):
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return  # it has ended since it answered
            deadline = time.monotonic() + _STOP_TIMEOUT
            while time.monotonic() < deadline:
                if Postmaster.read(data) is None or not self.answers():
                    return
                time.sleep(0.01)


def clear_remains(data: Path, socket_dir: Path) -> None:
    """Remove files of a crashed server that would prevent a start.

    The caller holds the guard and knows that no server listens.
    """
    for remains in socket_dir.glob(".s.PGSQL.*"):
        remains.unlink(missing_ok=True)
    if Postmaster.read(data) is None:
        # A power cut left an incomplete file. A complete one must stay: it leads PostgreSQL to the
        # shared memory of a killed server, which shows whether a process of that server still runs.
        (data / "postmaster.pid").unlink(missing_ok=True)
