"""What a data directory tells about the server that runs on it, or ran on it last."""

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
        # With the port, lest PGPORT be taken for it.
        return f"postgresql://postgres@/postgres?host={quote(self.socket_dir)}&port={self.port}"

    def serves(self, data: Path) -> bool:
        """False if `data` is a copy, made while the original was in use."""
        try:
            return os.path.samefile(self.data, data)
        except FileNotFoundError:
            return False

    def answers(self) -> bool:
        """Does anyone listen? A pid proves nothing: it may be reused, or a zombie's."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            try:
                probe.connect(f"{self.socket_dir}/.s.PGSQL.{self.port}")
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            except (TimeoutError, BlockingIOError):
                pass  # too busy to accept, but there
            return True

    def stop(self, data: Path) -> None:
        """End a server whose watchdog was killed. Only for one that answers: the pid is its own."""
        for number in (signal.SIGINT, signal.SIGQUIT):
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return  # it ended by itself since it answered
            deadline = time.monotonic() + _STOP_TIMEOUT
            while time.monotonic() < deadline:
                if Postmaster.read(data) is None or not self.answers():
                    return
                time.sleep(0.01)


def clear_remains(data: Path, socket_dir: Path) -> None:
    """Remove what a crash left and would prevent a start. Nobody listens, and we hold the guard."""
    for remains in socket_dir.glob(".s.PGSQL.*"):
        remains.unlink(missing_ok=True)
    if Postmaster.read(data) is None:
        # Torn by a power cut. Not in general: a sound one leads PostgreSQL to the shared memory of
        # a killed server, by which it knows that a process of that one is still at work.
        (data / "postmaster.pid").unlink(missing_ok=True)
