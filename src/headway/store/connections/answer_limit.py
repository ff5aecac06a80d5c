"""A limit for the answer of a server: a connection that stays silent is cut.

Keepalives do not notice a stopped backend or a hung pooler, because the kernel at the other end still
answers. On an event loop a timer cuts the connection. For threads there is one watchdog thread per
process with a table of deadlines: entering a limit costs a microsecond and wakes nobody.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self
from weakref import WeakSet

import psycopg

from headway.core.clock import monotonic
from headway.store.connect import AsyncLink, SyncLink, cut

_ROUND = 5.0
"""Seconds between two rounds of the watchdog while nothing is due; a shorter limit wakes it."""


class NoAnswer(psycopg.OperationalError):
    """The server was silent for longer than the limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:.3g} s")


class Limit:
    """Cuts a connection that does not answer in time, and raises `NoAnswer` for its error.

    >>> with SyncLimit(conn, 15) as limit:      # doctest: +SKIP
    ...     conn.execute(one)
    ...     limit.restart(15)                   # 15 seconds for the next answer
    ...     conn.execute(two)
    """

    __slots__ = ("__weakref__", "_conn", "_seconds", "expired", "until")

    def __init__(self, conn: AsyncLink | SyncLink, seconds: float) -> None:
        self._conn = conn
        self.expired = False
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Begins anew, for the next answer."""
        self._seconds = seconds
        self.until = monotonic() + seconds

    def expire(self) -> None:
        """Cuts the connection."""
        self.expired = True
        cut(self._conn)

    def _explain(self, error: BaseException | None) -> None:
        if self.expired and isinstance(error, psycopg.Error | OSError):
            raise NoAnswer(self._seconds) from error


class AsyncLimit(Limit):
    """A limit on an event loop."""

    __slots__ = ("_timer",)

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._explain(error)

    def _look(self) -> None:
        if (left := self.until - monotonic()) <= 0:
            self.expire()
        else:
            self._timer = asyncio.get_running_loop().call_later(left, self._look)


class SyncLimit(Limit):
    """A limit in a thread; the watchdog keeps it."""

    __slots__ = ()

    def __enter__(self) -> Self:
        _watchdog.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        _watchdog.remove(self)
        self._explain(error)


class _Watchdog:
    """One daemon thread with a table of deadlines, started by the first limit."""

    def __init__(self) -> None:
        self.tended: WeakSet[Tended] = WeakSet()
        self.reset()

    def reset(self) -> None:
        """Begins anew. A forked child has none of its parent's threads."""
        self._lock = threading.Lock()
        self._limits: set[SyncLimit] = set()
        self._poke = threading.Event()
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    def add(self, limit: SyncLimit) -> None:
        with self._lock:
            self._limits.add(limit)
            if limit.until < self._wakes_at:
                self._poke.set()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="headway-watchdog", daemon=True)
                with suppress(RuntimeError):  # the interpreter is ending: no limit any more
                    thread.start()
                    self._thread = thread

    def remove(self, limit: SyncLimit) -> None:
        # Under the lock: after this nobody cuts what may be closed, and its number used again.
        with self._lock:
            self._limits.discard(limit)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._poke.clear()
                now = monotonic()
                for limit in [limit for limit in self._limits if limit.until <= now]:
                    limit.expire()
                    self._limits.discard(limit)
                first = min((limit.until for limit in self._limits), default=now + _ROUND)
                self._wakes_at = min(first, now + _ROUND)
            for tended in list(self.tended):
                tended.tend()
            self._poke.wait(max(self._wakes_at - monotonic(), 0.01))


class Tended(Protocol):
    """Something that the watchdog looks after in each of its rounds."""

    def tend(self) -> None:
        """Do what is due. Called in the watchdog's thread."""


_watchdog = _Watchdog()
tend: Callable[[Tended], None] = _watchdog.tended.add
"""Has the watchdog look after something for as long as it lives."""

os.register_at_fork(after_in_child=_watchdog.reset)
