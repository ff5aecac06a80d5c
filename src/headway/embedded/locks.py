"""Files locked with flock. The locks survive forks and a deleted directory."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import TracebackType

from headway.embedded.trust import open_own

if sys.platform != "win32":
    import fcntl


class Lock:
    """A lock on the file `path`, held until `release()` or the end of this process.

    With `wait=False`, raise BlockingIOError if another process holds it.
    """

    def __init__(self, path: Path, *, shared: bool = False, wait: bool = True) -> None:
        mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        while True:
            self.fd = _open(self, path)
            try:
                fcntl.flock(self.fd, mode)
                if _is_still(path, self.fd):
                    return
            except BaseException:
                self.release()
                raise
            self.release()  # the directory was deleted meanwhile, and this file with it: open the new one

    def release(self) -> None:
        # Close the file and do not unlock it: an unlock would also release it in a child that inherited
        # it.
        with _forking:
            if self in _held:
                _held.remove(self)
                os.close(self.fd)

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


_held: set[Lock] = set()
_forking = threading.Lock()  # prevents a fork between opening a file and recording it


def _open(lock: Lock, path: Path) -> int:
    with _forking:
        lock.fd = open_own(path, os.O_RDWR)
        _held.add(lock)
    return lock.fd


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _drop_in_child() -> None:
    for lock in _held:
        os.close(lock.fd)  # the parent's hold is untouched: a flock ends with its last copy
    _held.clear()
    _forking.release()


if sys.platform != "win32":
    os.register_at_fork(
        before=_forking.acquire,
        after_in_parent=_forking.release,
        after_in_child=_drop_in_child,
    )
