"""The detached process that starts the server, waits for its last client to end and stops the server.

It runs as a script, by path and without site-packages, so that the background process is small:

    watchdog.py CLIENTS GUARD DATA SOCKET_DIR USER GROUP COMMAND...

It inherits the watchdog lock as an open file. It prints `ready` when the server accepts connections, or
closes standard output without a word if the server dies before that. The docstring of the package has the
protocol and its reasons.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

if sys.platform != "win32":
    import fcntl

_LOG = 2  # the client passes the server's log as standard error
_STOP_TIMEOUT = 60.0


def pidfile(data: str | os.PathLike[str]) -> list[str]:
    """Return the lines of postmaster.pid: pid, data, start, port, socket dir, address, memory, status.

    Raise PermissionError unless the file belongs to the owner of the data or to this account.
    """
    path = os.path.join(data, "postmaster.pid")
    try:
        with open(path, encoding="utf-8", opener=_no_link) as file:
            wrote, owns = os.fstat(file.fileno()).st_uid, os.stat(data).st_uid
            if wrote not in (owns, os.geteuid()):
                raise PermissionError(
                    f"{path} belongs to user {wrote} and its directory to user {owns}, so the server of "
                    "this directory did not write it; remove it"
                )
            return [line.strip() for line in file]
    except (FileNotFoundError, UnicodeDecodeError):
        return []


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def main(arguments: list[str]) -> None:
    clients_path, guard_path, data, socket_dir, user, group, *command = arguments
    # Open them while the client still holds the guard: these are the files that it has locked.
    clients = os.open(clients_path, os.O_RDWR | os.O_NOFOLLOW)
    guard = os.open(guard_path, os.O_RDWR | os.O_NOFOLLOW)
    if os.fork():
        os._exit(0)  # the watchdog must not be a child of the client, which would have to reap it

    server = subprocess.Popen(
        command,
        cwd="/",
        umask=0o077,
        stdin=subprocess.DEVNULL,
        stdout=_LOG,
        stderr=_LOG,
        user=int(user) if user else None,
        group=int(group) if group else None,
        extra_groups=[] if user else None,
    )

    def stop(signum: int = signal.SIGINT, frame: FrameType | None = None) -> None:
        server.send_signal(signal.SIGINT)  # "fast": rolls back, writes a checkpoint, exits

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    reaper = threading.Thread(target=_exit_with, args=(server, socket_dir), daemon=True)
    reaper.start()
    _announce(server, data)
    _wait_until_unused(clients, guard)
    stop()
    reaper.join(_STOP_TIMEOUT)
    server.send_signal(signal.SIGQUIT)  # "immediate": the next start recovers from the log
    reaper.join(_STOP_TIMEOUT)


def _exit_with(server: subprocess.Popen[bytes], socket_dir: str) -> None:
    # A thread, not SIGCHLD: a signal that arrives just before flock() sleeps would be lost.
    server.wait()
    with contextlib.suppress(OSError):
        os.rmdir(socket_dir)
    os._exit(0)


def _announce(server: subprocess.Popen[bytes], data: str) -> None:
    while True:
        lines = pidfile(data)
        if lines[:1] == [str(server.pid)] and lines[7:8] == ["ready"]:
            break
        time.sleep(0.005)
    with contextlib.suppress(BrokenPipeError):  # the client died and its lock is free: go on
        os.write(1, b"ready")
    os.dup2(0, 1)


def _wait_until_unused(clients: int, guard: int) -> None:
    while True:
        fcntl.flock(clients, fcntl.LOCK_EX)
        fcntl.flock(clients, fcntl.LOCK_UN)
        fcntl.flock(guard, fcntl.LOCK_EX)
        try:
            fcntl.flock(clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(guard, fcntl.LOCK_UN)
        else:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
