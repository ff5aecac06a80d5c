"""Notifies workers of jobs that have committed: one connection and one thread for a client.

NOTIFY holds a lock of the whole cluster until its commit is flushed, so producers that notify in their
own transactions wait for each other. Here they commit first and leave a hint. One statement then carries
the hints of all callers, of threads and event loops alike, and commits asynchronously.

- A caller never waits: it adds to a set, and wakes the thread if that sleeps.
- One statement is under way at a time, and a pause follows it. The first hint after a pause goes at once.
- A hint is lost with its process, or with its connection. That costs a poll interval, never a job (G15).
- The thread is a daemon. It ends when there was nothing to send for a while, and the next hint starts it
  again.
- Closing the client, and the end of the program, wait briefly for hints that were not sent yet.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from weakref import WeakSet

from headway.core.clock import monotonic
from headway.store.connections.answer_limit import SyncAnswerLimit
from headway.store.connections.connect import Target
from headway.store.connections.thread_pool import SyncPool
from headway.store.documents import Hint
from headway.store.statement import text
from headway.store.statements.plain import notify_lanes

NAME = "headway-bell"
"""The name of its connection in pg_stat_activity."""
FLUSH_WITHIN = 1.0
"""Seconds that closing waits for hints that were not sent yet."""
_PAUSE, _LONGEST_PAUSE = 0.001, 0.01
"""Seconds after each statement, in which hints gather: for each caller in the last such time, at most. A
single caller waits for no one, and among many of them workers are awake anyway."""
_PAUSE_AFTER_FAILURE = 1.0
_CONNECT_WITHIN = 1.0
_ANSWER_WITHIN = 5.0
_IDLE_FOR = 60.0
"""Seconds without a hint after which the thread ends and its connection is closed."""


class Bell:
    """Sends hints to workers, from any thread."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.reset()
        _bells.add(self)

    def reset(self) -> None:
        """Start again. A forked child has neither the thread of its parent nor its connection."""
        self._changed = threading.Condition()
        self._hints: set[Hint] = set()
        self._callers = self._gathered = 0
        self._thread: threading.Thread | None = None
        self._asleep = self._sending = self._ending = False

    @property
    def is_open(self) -> bool:
        """Whether it has a thread, and so perhaps a connection."""
        return self._thread is not None

    @property
    def busy(self) -> bool:
        """Whether a hint was not sent yet."""
        return bool(self._hints) or self._sending

    def notify(self, hints: Iterable[Hint]) -> None:
        """Leave hints, to be sent at once or after the pause. It does not wait."""
        with self._changed:
            self._hints.update(hints)
            self._callers += 1
            if self._thread is None:
                self._start()
            elif self._asleep:
                self._asleep = False
                self._changed.notify_all()

    def flush(self, within: float = FLUSH_WITHIN) -> None:
        """Wait until all hints were sent, but not for longer than `within` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self.busy, within)

    def close(self) -> None:
        """Send the hints that are left, then end the thread and close its connection."""
        self.flush()
        with self._changed:
            thread, self._ending = self._thread, True
            self._hints.clear()
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(FLUSH_WITHIN)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="headway-bell", daemon=True)
        self._ending = self._asleep = False
        try:
            thread.start()
        except RuntimeError:  # the interpreter is shutting down: a poll finds the jobs
            self._hints.clear()
        else:
            self._thread = thread

    def _run(self) -> None:
        changed, pool = self._changed, SyncPool(self._target.named(NAME), 1)
        try:
            while hints := self._next(changed):
                used = pool.idle > 0  # it may have been closed meanwhile: then once more
                sent = self._send(pool, hints) or (used and self._send(pool, hints))
                with changed:
                    self._sending = False
                    changed.notify_all()
                    pause = min(_PAUSE * self._gathered, _LONGEST_PAUSE)
                time.sleep(pause if sent else _PAUSE_AFTER_FAILURE)
        finally:
            pool.end()

    def _next(self, changed: threading.Condition) -> set[Hint]:
        """Return the hints to send. Return none if the thread is to end."""
        with changed:
            until = monotonic() + _IDLE_FOR
            while not self._hints and not self._ending and (left := until - monotonic()) > 0:
                self._asleep = True
                changed.wait(left)
            self._asleep = False
            hints, self._hints = self._hints, set[Hint]()
            self._gathered, self._callers = self._callers, 0
            if hints and not self._ending:
                self._sending = True
                return hints
            self._thread = None
            changed.notify_all()
            return set()

    def _send(self, pool: SyncPool, hints: set[Hint]) -> bool:
        """Send hints. Return false if that failed. Whatever the reason, the thread goes on."""
        channel = self._target.work_channel
        assert channel is not None, "without a channel there is no bell"
        try:
            statement = notify_lanes(channel, hints)
            sql = text(statement.name, self._target.schema)
            with (
                pool.connection(monotonic() + _CONNECT_WITHIN) as conn,
                SyncAnswerLimit(conn, _ANSWER_WITHIN),
                nullcontext() if pool.is_direct(conn) else pool.transaction(conn),
            ):
                conn.execute(sql, statement.params)
        except Exception:
            return False
        return True


_bells: WeakSet[Bell] = WeakSet()


def _flush_all() -> None:
    """At the end of the program its daemon threads still run. Give them the time to send."""
    with suppress(RuntimeError):  # a bell was made by another thread just now
        for bell in _bells:
            bell.flush()


atexit.register(_flush_all)
