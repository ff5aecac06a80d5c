"""The pool that threads of user code share. See pool.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import Connection, IsolationLevel

from headway.core.clock import monotonic
from headway.errors import StandbyRefused
from headway.store.connections.answer_limit import SyncAnswerLimit, maintain
from headway.store.connections.connect import (
    CLIENT_SESSION,
    CLIENT_TRANSACTION,
    SyncConn,
    Target,
    refuse_standby,
)
from headway.store.connections.pool import (
    ABOUT,
    AT_LEAST,
    CONNECT_WITHIN,
    END,
    PREPARE_AFTER,
    SESSION_LOCKS,
    TRANSACTION_LOCKS,
    NoneFree,
    Pool,
    Pooled,
)
from headway.store.faults import DRIVER_ERRORS


class SyncPool(Pool[SyncConn]):
    """The connections that threads share."""

    def __init__(self, target: Target, size: int) -> None:
        super().__init__(target, size)
        self._room = threading.Semaphore(size)
        self._turn = threading.Lock()
        maintain(self)

    @contextmanager
    def connection(self, until: float | None = None) -> Generator[SyncConn, None, None]:
        """Provide a connection, like `AsyncPool.connection`."""
        pooled = self._take(monotonic() + CONNECT_WITHIN if until is None else until)
        try:
            yield pooled.conn
        finally:
            self.give(pooled)

    def take_sound(self) -> Pooled[SyncConn] | None:
        """Return an idle connection without a pooler, like `AsyncPool.take_sound`."""
        if not self._has_sound_one or not self._room.acquire(blocking=False):
            return None
        if (pooled := self._idle_one()) is None or not pooled.direct:
            self._room.release()
            if pooled is not None:
                self._give_back(pooled)
            return None
        return pooled

    def give(self, pooled: Pooled[SyncConn]) -> None:
        """Take a connection back."""
        self._give_back(pooled)
        self._room.release()

    def end_silent(self, conn: SyncConn) -> None:
        """End silent server processes, like `AsyncPool.end_silent`."""
        if (silent := self._silent_ones(conn)) is not None:
            conn.execute(END, silent)

    def _take(self, until: float) -> Pooled[SyncConn]:
        if not self._room.acquire(timeout=max(until - monotonic(), 0)):
            raise self._outage or NoneFree(self._size)
        try:
            return self._idle_one() or self._reach(until)
        except BaseException:
            self._room.release()
            raise

    @contextmanager
    def transaction(self, conn: SyncConn) -> Generator[None, None, None]:
        """Open a transaction with our settings: a pooler does not keep those of a session."""
        conn.execute(CLIENT_TRANSACTION)
        try:
            conn.execute(TRANSACTION_LOCKS, self._lock_timeout)
            yield
        except BaseException:
            with suppress(psycopg.Error):
                conn.rollback()
            raise
        conn.commit()

    def _reach(self, until: float) -> Pooled[SyncConn]:
        until = max(until, monotonic() + AT_LEAST)
        while True:
            outage = self._outage
            if outage is None:
                pooled = self._attempt(until)
            else:
                if not self._turn.acquire(timeout=max(until - monotonic(), 0)):
                    raise outage
                try:
                    if self._outage is None:
                        continue
                    left, pause = until - monotonic(), self._next_at - monotonic()
                    time.sleep(max(min(left, pause), 0))
                    if left <= max(pause, 0):
                        raise self._outage
                    pooled = self._attempt(until)
                finally:
                    self._turn.release()
            if pooled is not None:
                return pooled

    def _attempt(self, until: float) -> Pooled[SyncConn] | None:
        try:
            return self._reached(self._connect(until))
        except (*DRIVER_ERRORS, StandbyRefused) as error:
            self._met(error)
            return None

    def _connect(self, until: float) -> SyncConn:
        conn = Connection.connect(self._dsn, **self._options(until))
        try:
            with SyncAnswerLimit(conn, self._left(until)):
                row = conn.execute(ABOUT).fetchone()
                assert row is not None
                refuse_standby(row[0])
                conn.isolation_level = IsolationLevel.READ_COMMITTED
                if row[1] == conn.info.backend_pid:
                    self._who[conn] = row[1], row[2]
                    conn.execute(CLIENT_SESSION)
                    conn.execute(SESSION_LOCKS, self._lock_timeout)
                    conn.prepare_threshold = PREPARE_AFTER
        except BaseException:
            conn.pgconn.finish()
            raise
        return conn
