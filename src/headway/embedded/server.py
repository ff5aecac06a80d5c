"""Joining the server of a directory, or starting it. The protocol is in the package's docstring."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from headway.embedded import watchdog
from headway.embedded.binaries import Binaries, find_binaries, reachable
from headway.embedded.cluster import PATIENCE, Home, create_data, environment
from headway.embedded.locks import Lock
from headway.embedded.places import Account, choose_account, make_home, socket_directory
from headway.embedded.postmaster import Postmaster, clear_remains
from headway.errors import EmbeddedUnavailable

DEFAULTS = {"listen_addresses": "", "port": "5432", "max_connections": "200"}
_LOG_LIMIT = 10_000_000


class EmbeddedServer:
    """A hold on the server of one directory: it runs at least until `close()`."""

    def __init__(self, dsn: str, data: Path, hold: Lock) -> None:
        self.dsn = dsn
        self.data = data
        self._hold = hold

    def close(self) -> None:
        """Let go. The server stops soon after, unless another hold is left."""
        self._hold.release()

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def start(
    root: Path | str = ".headway", *, settings: Mapping[str, str] | None = None
) -> EmbeddedServer:
    """Join the server whose data is kept in `root`, starting it first if it does not run.

    `settings` are PostgreSQL's own (`{"fsync": "off"}`); they apply if this call starts the server.
    Blocks: about a second the very first time, a fraction of one later, next to nothing to join.
    """
    if sys.platform == "win32":
        raise EmbeddedUnavailable(
            "the embedded server needs a Unix; install PostgreSQL and set HEADWAY_DATABASE_URL"
        )
    binaries = find_binaries()
    try:
        home = Home(make_home(Path(root), binaries.major), binaries.major)
        with Lock(home.lock("guard")) as guard:
            hold = Lock(home.lock("clients"), shared=True)
            try:
                postmaster = _join(home, binaries, DEFAULTS | dict(settings or {}), guard)
            except BaseException:
                hold.release()
                raise
            return EmbeddedServer(postmaster.dsn, home.data, hold)
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedUnavailable(
            f"the embedded server in {Path(root).absolute()} cannot be started or joined: {error}"
        ) from error


def _join(home: Home, binaries: Binaries, settings: Mapping[str, str], guard: Lock) -> Postmaster:
    """A server that is ready, with a watchdog that has seen us. The guard is held throughout."""
    account = choose_account(home.data)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        last = Postmaster.read(home.data)
        running = last if last and last.answers() else None
        try:
            lease = Lock(home.lock("watchdog"), wait=False)
        except BlockingIOError:
            if running and running.status == "ready":
                return running
            time.sleep(0.01)  # its starter was killed, or it was: it is about to serve, or to end
            continue
        with lease:
            programs = reachable(binaries, account)
            if not home.data.exists():
                create_data(home, programs, account, lease)
            socket_dir = socket_directory(home.data, guard.fd, account)
            if running and running.serves(home.data):
                if running.socket_dir != str(socket_dir):
                    return running  # started by hand, and not ours to stop
                running.stop(home.data)
            clear_remains(home.data, socket_dir)
            options = [f"--{name}={value}" for name, value in settings.items()]
            command = [f"{programs.bin}/postgres", f"-D{home.data}", *options, f"-k{socket_dir}"]
            _launch(home, command, account, socket_dir, lease, last)
    raise EmbeddedUnavailable(
        f"the server in {home.data} neither started nor stopped in {PATIENCE:.0f} s; see {home.log}"
    )


def _launch(
    home: Home,
    command: list[str],
    account: Account,
    socket_dir: Path,
    lease: Lock,
    last: Postmaster | None,
) -> None:
    """Spawn a watchdog with a server, and wait for its word. The next look finds it, or is due."""
    if home.log.exists() and home.log.stat().st_size > _LOG_LIMIT:
        home.log.replace(home.log.with_suffix(".log.1"))
    with open(home.log, "ab", opener=_private) as log:
        begin = log.tell()
        done = subprocess.run(
            [
                *(sys.executable, "-I", "-S", watchdog.__file__),
                *(home.lock("clients"), home.lock("guard"), home.data, socket_dir),
                *account.arguments,
                *command,
            ],
            cwd="/",
            # The one pid that PostgreSQL takes for no rival, be it a zombie's or a stranger's now.
            env=environment() | ({"PG_GRANDPARENT_PID": str(last.pid)} if last else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[lease.fd],
            start_new_session=True,
            timeout=PATIENCE,
        )
    if done.stdout == b"ready":
        return
    said = home.log.read_bytes()[begin:].decode(errors="replace").strip()
    if "pre-existing shared memory block" in said:
        time.sleep(0.1)  # a backend of a killed server is about to notice, and to end
        return
    raise EmbeddedUnavailable(
        f"PostgreSQL did not start in {home.data}; the end of {home.log} is:\n"
        + "\n".join(said.splitlines()[-20:])
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # the text of statements is in it
