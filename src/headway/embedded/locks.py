"""Files locked with flock, in a way that neither a fork nor a deleted directory can spoil."""

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
    """A lock on the file `path`, held from here to `release()` or to the end of this process.

    With `wait=False`, raises BlockingIOError if another holds it.
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
            self.release()  # the directory was deleted while we waited: this file is nobody's now

    def release(self) -> None:
        # Closed, never unlocked: an unlock would also take it from a child it was passed on to.
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
_forking = threading.Lock()  # so that no fork happens between opening a file and noting it


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
