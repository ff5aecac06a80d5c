"""A limit on the time for an answer: a connection that stays silent is cut.

Keepalives do not notice a stopped backend or a hung pooler, because the kernel at the other end still
answers. On an event loop a timer cuts the connection. For threads there is one watchdog thread per
process with a table of deadlines: entering a limit costs a microsecond and wakes no thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self
from weakref import WeakSet

import psycopg

from headway.core.clock import monotonic
from headway.store.connections.connect import AsyncConn, SyncConn, cut

_ROUND = 5.0
"""Seconds between two rounds of the watchdog while nothing is due. A shorter limit wakes it."""


class NoAnswer(psycopg.OperationalError):
    """The server was silent for longer than the limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:.3g} s")


class AnswerLimit:
    """Cuts a connection that does not answer in time, and raises `NoAnswer` in place of its error.

    >>> with SyncAnswerLimit(conn, 15) as limit:      # doctest: +SKIP
    ...     conn.execute(one)
    ...     limit.restart(15)                   # 15 seconds for the next answer
    ...     conn.execute(two)
    """

    __slots__ = ("__weakref__", "_conn", "_seconds", "expired", "until")

    def __init__(self, conn: AsyncConn | SyncConn, seconds: float) -> None:
        self._conn = conn
        self.expired = False
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Start again, for the next answer."""
        self._seconds = seconds
        self.until = monotonic() + seconds

    def expire(self) -> None:
        """Cut the connection."""
        self.expired = True
        cut(self._conn)

    def _explain(self, error: BaseException | None) -> None:
        if self.expired and isinstance(error, psycopg.Error | OSError):
            raise NoAnswer(self._seconds) from error


class AsyncAnswerLimit(AnswerLimit):
    """A limit on an event loop."""

    __slots__ = ("_timer",)

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._check)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._explain(error)

    def _check(self) -> None:
        if (left := self.until - monotonic()) <= 0:
            self.expire()
        else:
            self._timer = asyncio.get_running_loop().call_later(left, self._check)


class SyncAnswerLimit(AnswerLimit):
    """A limit in a thread. The watchdog enforces it."""

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
        self.reset()

    def reset(self) -> None:
        """Start again. A forked child does not have the threads of its parent, and must leave the
        connections of its parent alone."""
        self.maintained: WeakSet[Maintained] = WeakSet()
        self._lock = threading.Lock()
        self._limits: set[SyncAnswerLimit] = set()
        self._poke = threading.Event()
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    def add(self, limit: SyncAnswerLimit) -> None:
        with self._lock:
            self._limits.add(limit)
            if limit.until < self._wakes_at:
                self._poke.set()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="headway-watchdog", daemon=True)
                with suppress(
                    RuntimeError
                ):  # the interpreter is shutting down: there is no limit then
                    thread.start()
                    self._thread = thread

    def remove(self, limit: SyncAnswerLimit) -> None:
        # Under the lock: afterwards the watchdog does not cut a connection that may be closed, and whose
        # file descriptor may be in use again.
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
            for maintained in list(self.maintained):
                maintained.maintain()
            self._poke.wait(max(self._wakes_at - monotonic(), 0.01))


class Maintained(Protocol):
    """An object whose `maintain` the watchdog calls in each of its rounds."""

    def maintain(self) -> None:
        """Do the work that is due. Called in the watchdog's thread."""


_watchdog = _Watchdog()


def maintain(maintained: Maintained) -> None:
    """Make the watchdog maintain an object for as long as it lives."""
    _watchdog.maintained.add(maintained)


os.register_at_fork(after_in_child=_watchdog.reset)
