"""Joins the server of a directory, or starts it. The package's docstring has the protocol."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType

from headway.embedded import watchdog
from headway.embedded.binaries import Binaries, find_binaries, reachable
from headway.embedded.cluster import STEP_TIMEOUT, Home, create_data, data_directories, environment
from headway.embedded.locks import Lock
from headway.embedded.places import Account, choose_account, make_home, socket_directory
from headway.embedded.postmaster import Postmaster, clear_remains
from headway.embedded.trust import open_own
from headway.errors import EmbeddedUnavailable

DEFAULTS = {"listen_addresses": "", "port": "5432", "max_connections": "200"}
_LOG_LIMIT = 10_000_000
_RESTART_INTERVAL = 2.0

log = logging.getLogger("headway.embedded")


class EmbeddedServer:
    """A hold on the server of one directory: it runs at least until `close()`."""

    def __init__(self, dsn: str, data: Path, hold: Lock, join: Callable[[], object]) -> None:
        """`join` blocks, and starts the server if it does not run."""
        self.dsn = dsn
        self.data = data
        self._hold = hold
        self._join = join
        self._closed = False
        self._starting = threading.Lock()
        self._started_at = -math.inf

    def close(self) -> None:
        """Release the hold. The server stops soon after, unless another process holds it."""
        self._closed = True
        self._hold.release()

    def start_again(self) -> None:
        """Start the server again if it has ended (killed, or out of disk space), without waiting.

        It keeps its address and its data. Call this when it cannot be reached. A thread does the work.
        """
        if self._closed or not self._starting.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self._started_at < _RESTART_INTERVAL:
                return
            self._started_at = time.monotonic()
            threading.Thread(target=self._restart, name="headway-embedded", daemon=True).start()
        finally:
            self._starting.release()

    def _restart(self) -> None:
        with self._starting:
            try:
                last = Postmaster.read(self.data)
                # Without its data, a new and empty server would start at another address.
                if self._closed or not self.data.exists() or (last is not None and last.answers()):
                    return
                self._join()
            except (OSError, subprocess.SubprocessError, EmbeddedUnavailable) as error:
                log.error("the embedded server has ended and did not start again: %s", error)
            else:
                log.warning("the embedded server had ended; started it again in %s", self.data)

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
    """Join the server whose data is in `root`. Start it first if it does not run.

    `settings` are PostgreSQL's own (`{"fsync": "off"}`). They apply if this call starts the server. The
    call blocks: for about a second the first time, for less than that later, and hardly at all to join.
    """
    if sys.platform == "win32":
        raise EmbeddedUnavailable(
            "the embedded server does not run on Windows; install PostgreSQL and set "
            "HEADWAY_DATABASE_URL"
        )
    try:
        place = Path(root).absolute()
    except FileNotFoundError:
        raise EmbeddedUnavailable(
            "the working directory was deleted, and the embedded server keeps its data there; "
            "change to another directory, or set HEADWAY_DATABASE_URL"
        ) from None
    binaries = find_binaries()
    try:
        home = Home(make_home(place, binaries.major), binaries.major)
        _mention_others(home)
        wanted = DEFAULTS | dict(settings or {})
        with Lock(home.lock("guard")) as guard:
            hold = Lock(home.lock("clients"), shared=True)
            try:
                postmaster = _join(home, binaries, wanted, guard)
            except BaseException:
                hold.release()
                raise
            again = partial(_join_guarded, home, binaries, wanted)
            return EmbeddedServer(postmaster.dsn, home.data, hold, again)
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedUnavailable(
            f"the embedded server in {place} cannot be started or joined: {error}"
        ) from error


def exists(root: Path | str) -> bool:
    """Return whether `start` would find data in `root`. Create nothing."""
    link = Path(root) / "elsewhere"
    homes = [Path(root), link.resolve()] if link.is_symlink() else [Path(root)]
    found = {data.name for home in homes for data in data_directories(home)}
    return bool(found) and f"pg{find_binaries().major}" in found


def _mention_others(home: Home) -> None:
    """Log a warning if there is data of other major versions, whose jobs this server does not see."""
    if others := [path for path in data_directories(home.root) if path != home.data]:
        log.warning(
            "the embedded server uses %s and does not see the jobs in %s, which has data of another "
            "version of PostgreSQL; set HEADWAY_PG_BIN to the programs of that version, or delete it",
            home.data,
            " and ".join(map(str, others)),
        )


def _join_guarded(home: Home, binaries: Binaries, settings: Mapping[str, str]) -> Postmaster:
    """Take the guard and join, for a client that already holds `clients`.

    The holder of the guard never waits for `clients`, so this cannot deadlock.
    """
    with Lock(home.lock("guard")) as guard:
        return _join(home, binaries, settings, guard)


def _join(home: Home, binaries: Binaries, settings: Mapping[str, str], guard: Lock) -> Postmaster:
    """Return a server that is ready and has a watchdog. The caller holds the guard throughout."""
    account = choose_account(home.data)
    deadline = time.monotonic() + STEP_TIMEOUT
    while time.monotonic() < deadline:
        last = Postmaster.read(home.data)
        running = last if last and last.answers() else None
        try:
            lease = Lock(home.lock("watchdog"), wait=False)
        except BlockingIOError:
            if running and running.status == "ready":
                return running
            time.sleep(0.01)  # the server or its starter was killed: it will soon be ready, or end
            continue
        with lease:
            programs = reachable(binaries, account)
            if not home.data.exists():
                create_data(home, programs, account, lease)
            socket_dir = socket_directory(home.data, guard.fd, account)
            if running and running.serves(home.data):
                if running.socket_dir != str(socket_dir):
                    return running  # a user started it, so it must not be stopped
                running.stop(home.data)
            clear_remains(home.data, socket_dir)
            options = [f"--{name}={value}" for name, value in settings.items()]
            command = [f"{programs.bin}/postgres", f"-D{home.data}", *options, f"-k{socket_dir}"]
            _launch(home, command, account, socket_dir, lease, last)
    raise EmbeddedUnavailable(
        f"the server in {home.data} neither started nor stopped in {STEP_TIMEOUT:.0f} s; "
        f"see {home.log}"
    )


def _launch(
    home: Home,
    command: list[str],
    account: Account,
    socket_dir: Path,
    lease: Lock,
    last: Postmaster | None,
) -> None:
    """Spawn a watchdog with a server, and wait until it is ready. The caller then checks again."""
    if home.log.exists() and home.log.stat().st_size > _LOG_LIMIT:
        home.log.replace(home.log.with_suffix(".log.1"))
    with open(open_own(home.log, os.O_RDWR | os.O_APPEND), "a+b") as log:
        begin = log.seek(0, os.SEEK_END)
        done = subprocess.run(
            [
                *(sys.executable, "-I", "-S", watchdog.__file__),
                *(home.lock("clients"), home.lock("guard"), home.data, socket_dir),
                *account.arguments,
                *command,
            ],
            cwd="/",
            # PostgreSQL does not take this pid for a rival server. It may now be that of a zombie or of
            # an unrelated process.
            env=environment() | ({"PG_GRANDPARENT_PID": str(last.pid)} if last else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[lease.fd],
            start_new_session=True,
            timeout=STEP_TIMEOUT,
        )
        if done.stdout == b"ready":
            return
        log.seek(begin)
        output = log.read().decode(errors="replace").strip()
    if "pre-existing shared memory block" in output:
        time.sleep(0.1)  # a backend of a killed server still runs and will end soon
        return
    raise EmbeddedUnavailable(
        f"PostgreSQL did not start in {home.data}; the end of {home.log} is:\n"
        + "\n".join(output.splitlines()[-20:])
    )
