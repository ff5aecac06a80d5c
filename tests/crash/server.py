"""A PostgreSQL of a test's own, to be stopped hard and started again.

A child of the test, run as embedded servers are: by `nobody` where the test runs as root.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from headway.embedded import find_binaries
from headway.embedded.binaries import reachable
from headway.embedded.cluster import environment
from headway.embedded.places import choose_account
from headway.embedded.postmaster import Postmaster
from tests.support import eventually_sync


class OwnServer:
    """Made stopped, in an empty directory that every account may enter."""

    def __init__(self, place: Path, **settings: str) -> None:
        found = find_binaries()
        self.data = place / "data"
        self.account = choose_account(self.data)
        self.bin = reachable(found, self.account).bin
        self._settings = {"listen_addresses": "", "max_connections": "100"} | settings
        self._sockets = place / "s"
        self._sockets.mkdir(mode=0o755)
        self.account.own(self._sockets)
        self._log = (place / "log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return f"host={self._sockets} port=5432 user=postgres dbname=postgres"

    def create(self) -> OwnServer:
        """Makes its data."""
        self.data.mkdir(mode=0o700)
        self.account.own(self.data)
        how = ("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.tool("initdb", "-D", str(self.data), "-U", "postgres", *how)
        return self

    def start(self, **settings: str) -> OwnServer:
        options = [f"--{name}={value}" for name, value in (self._settings | settings).items()]
        self._process = self._run(
            [str(self.bin / "postgres"), f"-D{self.data}", *options, f"-k{self._sockets}"]
        )
        eventually_sync(self._ready)
        return self

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT is `pg_ctl -m immediate`: a crash, recovered from at the next start."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGQUIT) -> None:
        self.stop(how)
        self.start()

    def tool(self, name: str, *arguments: str) -> None:
        """Runs one of PostgreSQL's programs to its end, as the server's account."""
        assert self._run([str(self.bin / name), *arguments]).wait(60) == 0, f"{name} failed"

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended; see {self._log.name}"
        seen = Postmaster.read(self.data)
        # "standby" is what a server in recovery that takes readers says.
        return (
            seen is not None
            and seen.pid == self._process.pid
            and seen.status in ("ready", "standby")
        )

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd="/",
            env=environment(),
            umask=0o077,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            user=self.account.user,
            group=self.account.group,
            extra_groups=self.account.extra_groups,
        )
