"""Connections for user code: what pools share, and the pool of an event loop.

A caller without an idle connection makes one itself, so the driver's own error reaches the caller. While
the server is away one caller at a time tries to connect, at most once per second, and the others wait
for the outcome. The pool does nothing in the background, apart from closing what stays idle.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, IsolationLevel
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from headway.core.clock import monotonic
from headway.errors import StandbyRefused
from headway.store.connect import (
    CLIENT_SESSION,
    CLIENT_TRANSACTION,
    AsyncLink,
    SyncLink,
    Target,
    refuse_standby,
)
from headway.store.faults import DRIVER_ERRORS, is_passing
from headway.store.limit import AsyncLimit, NoAnswer

C = TypeVar("C", AsyncLink, SyncLink)
Backend = tuple[int, float]
"""A server process: its number and the second of its start. The number alone may be another's after
a failover."""

_PAUSES = (0.1, 0.2, 0.5, 1.0)
"""Seconds between attempts to connect while the server is away; the last one repeats."""
CONNECT_WITHIN = 5.0
AT_LEAST = 1.0
"""Seconds that an attempt gets even if the caller's time is up."""
_IDLE_FOR = 600.0
_USED_FOR = 3600.0
PREPARE_AFTER = 3
ABOUT = """
select pg_is_in_recovery(), pid, extract(epoch from backend_start)::float8
from pg_stat_get_activity(pg_backend_pid())
"""
END = """
select pg_terminate_backend(s.pid)
from unnest(%s::int[], %s::float8[]) as s(pid, started)
cross join lateral pg_stat_get_activity(s.pid) a
where extract(epoch from a.backend_start)::float8 = s.started
"""
LOCK_WITHIN = 10.0
"""Seconds for which the lock of a stranger's transaction is waited for."""
SESSION_LOCKS = "select set_config('lock_timeout', %s, false)"
TRANSACTION_LOCKS = "select set_config('lock_timeout', %s, true)"


class NoneFree(psycopg.OperationalError):
    """All connections of the pool were in use for as long as the caller could wait."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"all {size} connections of the pool are in use; raise pool_size, or enqueue less in parallel"
        )


@dataclass(slots=True)
class Kept(Generic[C]):
    """A connection of the pool."""

    conn: C
    made_at: float
    idle_since: float = 0.0


class Pool(Generic[C]):
    """What both pools share: the idle connections, and the outage while the server is away."""

    def __init__(self, target: Target, size: int) -> None:
        self._dsn = target.dsn
        self._size = size
        given = conninfo_to_dict(target.dsn).get("connect_timeout")
        self._connect_within = float(given or CONNECT_WITHIN)
        self._idle: deque[Kept[C]] = deque()
        self._closed = False
        self._outage: BaseException | None = None
        self._failed = 0
        self._next_at = 0.0
        self._who: WeakKeyDictionary[C, Backend] = WeakKeyDictionary()
        self.silent: list[Backend] = []
        """Server processes whose connection broke in the middle of a statement."""
        self.lock_within = LOCK_WITHIN
        self.verified = False
        """Whether the schema was checked on one of its connections."""

    @property
    def idle(self) -> int:
        """How many connections wait for their next use."""
        return len(self._idle)

    @property
    def _away(self) -> bool:
        return self._outage is not None

    def tend(self) -> None:
        """Closes connections that nobody used for a while."""
        self._end_idle(monotonic() - _IDLE_FOR)

    def broke(self, conn: C | None) -> None:
        """Closes every idle connection, because `conn` met a fault.

        Its server process may be stopped with the request in its socket. It must not carry that out
        when it wakes, long after the repetition: it is ended before that (`end_silent`).
        """
        self._end_idle(monotonic())
        if conn is not None and conn.closed and (who := self._who.get(conn)) is not None:
            self.silent.append(who)

    def is_direct(self, conn: C) -> bool:
        """Return whether no pooler stands in between."""
        return conn in self._who

    def _silent_ones(self, conn: C) -> tuple[list[int], list[float]] | None:
        """Those to end, if this connection can: through a pooler nobody knows which server it is on."""
        if conn not in self._who:
            return None
        silent, self.silent = self.silent, []
        return [pid for pid, _ in silent], [started for _, started in silent]

    def end(self) -> None:
        """Closes the pool, and each connection in use once it is given back."""
        self._closed = True
        self._end_idle(monotonic())

    def _end_idle(self, before: float) -> None:
        while self._idle:
            try:
                kept = self._idle.popleft()
            except IndexError:  # another thread took it
                return
            if kept.idle_since > before:
                self._idle.appendleft(kept)
                return
            kept.conn.pgconn.finish()

    def _idle_one(self) -> Kept[C] | None:
        while self._idle:
            try:
                kept = self._idle.pop()
            except IndexError:
                return None
            if not kept.conn.closed:
                return kept
        return None

    def _keep(self, kept: Kept[C]) -> None:
        conn, now = kept.conn, monotonic()
        sound = not conn.closed and conn.pgconn.transaction_status == TransactionStatus.IDLE
        if self._closed or not sound or now - kept.made_at > _USED_FOR:
            conn.pgconn.finish()
            return
        kept.idle_since = now
        self._idle.append(kept)

    def _met(self, error: BaseException) -> None:
        """Begins an outage, or goes on with it. Raises an error that will not pass."""
        lasting = isinstance(error, StandbyRefused) and not self.verified
        if lasting or not (isinstance(error, StandbyRefused) or is_passing(error)):
            raise error
        self._outage = error
        self._next_at = monotonic() + _PAUSES[min(self._failed, len(_PAUSES) - 1)]
        self._failed += 1

    def _reached(self, conn: C) -> Kept[C]:
        self._outage, self._failed = None, 0
        return Kept(conn, monotonic())

    @property
    def _lock_timeout(self) -> list[str]:
        return [f"{round(self.lock_within * 1000)}ms"]

    def _left(self, until: float) -> float:
        return max(AT_LEAST, min(self._connect_within, until - monotonic()))

    def _options(self, until: float) -> dict[str, Any]:
        within = round(self._left(until))
        return {"autocommit": True, "prepare_threshold": None, "connect_timeout": within}


class AsyncPool(Pool[AsyncLink]):
    """The connections of one event loop."""

    def __init__(self, target: Target, size: int) -> None:
        super().__init__(target, size)
        self._room = asyncio.Semaphore(size)
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(self, until: float | None = None) -> AsyncGenerator[AsyncLink, None]:
        """Lend a connection. Raise the driver's error if there is none by `until`."""
        kept = await self._take(monotonic() + CONNECT_WITHIN if until is None else until)
        try:
            yield kept.conn
        finally:
            self._keep(kept)
            self._room.release()
            if self._timer is None and self._idle:
                self._timer = asyncio.get_running_loop().call_later(_IDLE_FOR, self._tend_again)

    async def close(self) -> None:
        """Closes every connection that is not in use."""
        self.end()
        if self._timer is not None:
            self._timer.cancel()

    async def end_silent(self, conn: AsyncLink) -> None:
        """Ends server processes that may still carry out what is about to be repeated."""
        if (silent := self._silent_ones(conn)) is not None:
            await conn.execute(END, silent)

    @asynccontextmanager
    async def transaction(self, conn: AsyncLink) -> AsyncGenerator[None, None]:
        """A transaction with our settings: through a pooler nothing of the session holds."""
        await conn.execute(CLIENT_TRANSACTION)
        try:
            await conn.execute(TRANSACTION_LOCKS, self._lock_timeout)
            yield
        except BaseException:
            with suppress(psycopg.Error):
                await conn.rollback()
            raise
        await conn.commit()

    def _tend_again(self) -> None:
        self._timer = None
        self.tend()
        if self._idle:
            self._timer = asyncio.get_running_loop().call_later(_IDLE_FOR, self._tend_again)

    async def _take(self, until: float) -> Kept[AsyncLink]:
        if self._room.locked():
            try:
                async with asyncio.timeout(max(until - monotonic(), 0)):
                    await self._room.acquire()
            except TimeoutError:
                raise self._outage or NoneFree(self._size) from None
        else:
            await self._room.acquire()
        try:
            return self._idle_one() or await self._new(until)
        except BaseException:
            self._room.release()
            raise

    async def _new(self, until: float) -> Kept[AsyncLink]:
        left = max(until - monotonic(), AT_LEAST)
        try:
            async with asyncio.timeout(left):
                return await self._reach(until)
        except TimeoutError:
            raise self._outage or NoAnswer(left) from None

    async def _reach(self, until: float) -> Kept[AsyncLink]:
        while True:
            if self._outage is None:
                kept = await self._attempt(until)
            else:
                async with self._turn:
                    if not self._away:
                        continue
                    await asyncio.sleep(max(self._next_at - monotonic(), 0))
                    kept = await self._attempt(until)
            if kept is not None:
                return kept

    async def _attempt(self, until: float) -> Kept[AsyncLink] | None:
        try:
            return self._reached(await self._connect(until))
        except (*DRIVER_ERRORS, StandbyRefused) as error:
            self._met(error)
            return None

    async def _connect(self, until: float) -> AsyncLink:
        conn = await AsyncConnection.connect(self._dsn, **self._options(until))
        try:
            with AsyncLimit(conn, self._left(until)):
                row = await (await conn.execute(ABOUT)).fetchone()
                assert row is not None
                refuse_standby(row[0])
                # Each statement of a transaction must see what committed before it (withdraw.sql
                # relies on it), whatever the default of the database is.
                await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
                # Nothing of the session is relied on through a pooler (see connect.py).
                if row[1] == conn.info.backend_pid:
                    self._who[conn] = row[1], row[2]
                    await conn.execute(CLIENT_SESSION)
                    await conn.execute(SESSION_LOCKS, self._lock_timeout)
                    conn.prepare_threshold = PREPARE_AFTER
        except BaseException:
            conn.pgconn.finish()
            raise
        return conn
