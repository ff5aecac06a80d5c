"""Starting processes under an account, signalling their trees, and ending them all."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ACCOUNT = "postgres"
"""PostgreSQL refuses to run as root. As root, the cluster runs under this account."""


class Processes:
    """The processes that this run started. Each has its own log in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        unprivileged: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own; as the cluster's account if `unprivileged`."""
        lowered = unprivileged and os.geteuid() == 0
        with open(self.log(name), "ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self._directory,
                env=plain_environment() if environment is None else dict(environment),
                user=ACCOUNT if lowered else None,
                group=ACCOUNT if lowered else None,
                extra_groups=[] if lowered else None,
            )
        self._started[name] = process
        return process

    def log(self, name: str) -> Path:
        """Return the file with what a process said."""
        return self._directory / f"{name}.log"

    def kill_all(self) -> None:
        """End everything that was started, also what is stopped or has been forgotten by its parent."""
        for process in self._started.values():
            if process.poll() is None:  # else its number may be a stranger's by now
                kill([process.pid, *descendants(process.pid)], signal.SIGCONT, signal.SIGKILL)
        for process in self._started.values():
            process.wait()


def plain_environment() -> dict[str, str]:
    """Return an environment without a virtual environment: Patroni has the system's Python."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}


def kill(pids: Iterable[int], *signals: int) -> None:
    """Send signals, in order, to each process that is still there."""
    pids = list(pids)
    for number in signals:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Return the processes that come from this one, parents first."""
    children = defaultdict[int, list[int]](list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            # The name in brackets may hold anything, spaces included.
            fields = stat.read_text().rpartition(")")[2].split()
            children[int(fields[1])].append(int(stat.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        waiting = [child for parent in waiting for child in children[parent]]
        found += waiting
    return found


def until(what: str, fact: Callable[[], object], *, within: float) -> float:
    """Wait for a fact, and return how long that took. Raise `TimeoutError` if it does not come true."""
    began = time.monotonic()
    while not fact():
        if time.monotonic() - began > within:
            raise TimeoutError(f"not within {within:.0f} s: {what}")
        time.sleep(0.1)
    return time.monotonic() - began
