"""`headway worker --reload`: a worker for development, which starts again when code changes.

A process without the app watches the files and runs the worker as a child. So code that cannot be
imported ends the child alone, and the next change starts another. The child holds a leash
(engine/supervisor.py): it drains when this process ends in whatever way.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from headway.engine.supervisor import DRAINED

log = logging.getLogger("headway.reload")

_LOOK_EVERY = 0.5
_SUFFIXES = (".py", ".toml", ".env")
_MOST_FILES = 20_000
_NAMED = 3
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})

Seen = Mapping[str, int]
"""The moment of the last change of each file, by its path."""


def look(directory: Path) -> Seen:
    """Return the source files below a directory. Hidden directories and environments are left out."""
    seen: dict[str, int] = {}
    for path in _files(directory):
        try:
            seen[path] = os.stat(path).st_mtime_ns
        except OSError:
            continue  # removed just now
        if len(seen) == _MOST_FILES:
            break
    return seen


def changed(before: Seen, now: Seen) -> list[str]:
    """Return the files that are new, gone or different."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


def _files(directory: Path) -> Iterator[str]:
    for folder, below, names in os.walk(directory):
        below[:] = [
            name for name in below
            if not name.startswith(".") and name not in _SKIPPED
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        ]  # fmt: skip
        yield from (os.path.join(folder, name) for name in names if name.endswith(_SUFFIXES))


class Reloader:
    """Runs one worker, and starts it again after a change, until SIGTERM or SIGINT."""

    def __init__(self, command: Callable[[int, int], Sequence[str]], directory: Path) -> None:
        """`command` makes the worker's command line from its leash and its number."""
        self._command = command
        self._directory = directory
        self._stopping = threading.Event()
        self._worker: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run until a signal, or until the worker drains by itself. Return an exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        theirs, ours = os.pipe()
        log.info("watching %s", self._directory)
        try:
            return self._keep(theirs)
        finally:
            os.close(ours)
            os.close(theirs)

    def _keep(self, leash: int) -> int:
        while not self._stopping.is_set():
            seen = look(self._directory)
            worker = self._start(leash)
            files = self._wait(worker, seen)
            if worker.poll() in (0, DRAINED) and not files:
                return 0
            if worker.poll() is not None and not files:
                log.warning(
                    "the worker ended with code %d; waiting for a change", worker.returncode
                )
                files = self._wait(None, seen)
            if files:
                some = ", ".join(os.path.relpath(path, self._directory) for path in files[:_NAMED])
                log.info("%s changed; starting again", some)
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
            worker.wait()
        return 0

    def _start(self, leash: int) -> subprocess.Popen[bytes]:
        self._worker = subprocess.Popen([*self._command(leash, 0)], pass_fds=(leash,))
        if self._stopping.is_set():
            self._worker.send_signal(signal.SIGTERM)
        return self._worker

    def _wait(self, worker: subprocess.Popen[bytes] | None, seen: Seen) -> list[str]:
        """Return the files that have changed; none if the worker ended or a signal came first."""
        while not self._stopping.wait(_LOOK_EVERY):
            if files := changed(seen, look(self._directory)):
                return files
            if worker is not None and worker.poll() is not None:
                return []
        return []

    def _stop(self, *_: object) -> None:
        """Drain the worker. A second signal stops it at once."""
        self._stopping.set()
        if self._worker is not None and self._worker.poll() is None:
            self._worker.send_signal(signal.SIGTERM)
