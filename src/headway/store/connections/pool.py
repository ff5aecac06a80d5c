"""Connections for user code: the base of both pools, and the pool of an event loop.

A caller that finds no idle connection opens one itself, so it receives the driver's own error. While the
server is unreachable, one caller at a time tries to connect, at most once per second, and the others wait
for the outcome. The pool does nothing in the background, except that it closes idle connections.
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
from headway.store.connections.answer_limit import AsyncAnswerLimit, NoAnswer
from headway.store.connections.connect import (
    CLIENT_SESSION,
    CLIENT_TRANSACTION,
    AsyncConn,
    SyncConn,
    Target,
    refuse_standby,
)
from headway.store.connections.prepared import PreparedStatements
from headway.store.faults import DRIVER_ERRORS, is_passing

C = TypeVar("C", AsyncConn, SyncConn)
Backend = tuple[int, float]
"""A server process: its pid and the second of its start. After a failover, another process may have the
same pid."""

_PAUSES = (0.1, 0.2, 0.5, 1.0)
"""Seconds between attempts to connect while the server is unreachable. The last one repeats."""
CONNECT_WITHIN = 5.0
AT_LEAST = 1.0
"""Seconds that an attempt gets even after the caller's deadline."""
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
"""Seconds that a statement waits for a lock of another transaction."""
SESSION_LOCKS = "select set_config('lock_timeout', %s, false)"
TRANSACTION_LOCKS = "select set_config('lock_timeout', %s, true)"


class NoneFree(psycopg.OperationalError):
    """All connections of the pool were in use until the caller's deadline."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"all {size} connections of the pool are in use; raise pool_size, or make fewer calls in "
            "parallel"
        )


@dataclass(slots=True)
class Pooled(Generic[C]):
    """A connection of the pool."""

    conn: C
    made_at: float
    direct: bool
    """Whether there is no pooler in between."""
    prepared: PreparedStatements
    idle_since: float = 0.0


class Pool(Generic[C]):
    """The part that both pools share: idle connections, and the outage while the server is down."""

    def __init__(self, target: Target, size: int) -> None:
        self._dsn = target.dsn
        self._size = size
        given = conninfo_to_dict(target.dsn).get("connect_timeout")
        self._connect_within = float(given or CONNECT_WITHIN)
        self._idle: deque[Pooled[C]] = deque()
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
        """How many connections are idle."""
        return len(self._idle)

    @property
    def _away(self) -> bool:
        return self._outage is not None

    def maintain(self) -> None:
        """Close connections that have been idle for a while."""
        self._end_idle(monotonic() - _IDLE_FOR)

    def broke(self, conn: C | None) -> None:
        """Close every idle connection, because `conn` had a fault.

        Its server process may be stopped with the request in its socket. When it wakes, long after the
        repetition, it must not run the request. So `end_silent` ends it before the repetition.
        """
        self._end_idle(monotonic())
        if conn is not None and conn.closed and (who := self._who.get(conn)) is not None:
            self.silent.append(who)

    def is_direct(self, conn: C) -> bool:
        """Return whether there is no pooler in between."""
        return conn in self._who

    def _silent_ones(self, conn: C) -> tuple[list[int], list[float]] | None:
        """Return the processes to end, or None behind a pooler: its server may be another one."""
        if conn not in self._who:
            return None
        silent, self.silent = self.silent, []
        return [pid for pid, _ in silent], [started for _, started in silent]

    def end(self) -> None:
        """Close the pool, and each connection in use once it is given back."""
        self._closed = True
        self._end_idle(monotonic())

    def _end_idle(self, before: float) -> None:
        while self._idle:
            try:
                pooled = self._idle.popleft()
            except IndexError:  # another thread took it
                return
            if pooled.idle_since > before:
                self._idle.appendleft(pooled)
                return
            pooled.conn.pgconn.finish()

    @property
    def _has_sound_one(self) -> bool:
        """Whether there is an idle connection, and nothing to do before it is used."""
        return bool(self._idle) and self.verified and not self.silent

    def _idle_one(self) -> Pooled[C] | None:
        while self._idle:
            try:
                pooled = self._idle.pop()
            except IndexError:
                return None
            if not pooled.conn.closed:
                return pooled
        return None

    def _give_back(self, pooled: Pooled[C]) -> None:
        conn, now = pooled.conn, monotonic()
        sound = not conn.closed and conn.pgconn.transaction_status == TransactionStatus.IDLE
        if self._closed or not sound or now - pooled.made_at > _USED_FOR:
            conn.pgconn.finish()
            return
        pooled.idle_since = now
        self._idle.append(pooled)

    def _met(self, error: BaseException) -> None:
        """Record an outage, or a further failure of it. Raise the error if it is lasting."""
        lasting = isinstance(error, StandbyRefused) and not self.verified
        if lasting or not (isinstance(error, StandbyRefused) or is_passing(error)):
            raise error
        self._outage = error
        self._next_at = monotonic() + _PAUSES[min(self._failed, len(_PAUSES) - 1)]
        self._failed += 1

    def _reached(self, conn: C) -> Pooled[C]:
        self._outage, self._failed = None, 0
        return Pooled(conn, monotonic(), conn in self._who, PreparedStatements())

    @property
    def _lock_timeout(self) -> list[str]:
        return [f"{round(self.lock_within * 1000)}ms"]

    def _left(self, until: float) -> float:
        return max(AT_LEAST, min(self._connect_within, until - monotonic()))

    def _options(self, until: float) -> dict[str, Any]:
        within = round(self._left(until))
        return {"autocommit": True, "prepare_threshold": None, "connect_timeout": within}


class AsyncPool(Pool[AsyncConn]):
    """The connections of one event loop."""

    def __init__(self, target: Target, size: int) -> None:
        super().__init__(target, size)
        self._room = asyncio.Semaphore(size)
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def connection(self, until: float | None = None) -> AsyncGenerator[AsyncConn, None]:
        """Provide a connection. Raise the driver's error if there is none by `until`."""
        pooled = await self._take(monotonic() + CONNECT_WITHIN if until is None else until)
        try:
            yield pooled.conn
        finally:
            self.give(pooled)

    async def take_sound(self) -> Pooled[AsyncConn] | None:
        """Return an idle connection without a pooler, if there is one now. `give` it back."""
        if not self._has_sound_one or self._room.locked():
            return None
        await self._room.acquire()  # at once
        if (pooled := self._idle_one()) is None or not pooled.direct:
            self._room.release()
            if pooled is not None:
                self._give_back(pooled)
            return None
        return pooled

    def give(self, pooled: Pooled[AsyncConn]) -> None:
        """Take a connection back."""
        self._give_back(pooled)
        self._room.release()
        if self._timer is None and self._idle:
            self._timer = asyncio.get_running_loop().call_later(_IDLE_FOR, self._maintain_again)

    async def close(self) -> None:
        """Close every connection that is not in use."""
        self.end()
        if self._timer is not None:
            self._timer.cancel()

    async def end_silent(self, conn: AsyncConn) -> None:
        """End server processes that may still run the request that is about to be repeated."""
        if (silent := self._silent_ones(conn)) is not None:
            await conn.execute(END, silent)

    @asynccontextmanager
    async def transaction(self, conn: AsyncConn) -> AsyncGenerator[None, None]:
        """Open a transaction with our settings: a pooler does not keep those of a session."""
        await conn.execute(CLIENT_TRANSACTION)
        try:
            await conn.execute(TRANSACTION_LOCKS, self._lock_timeout)
            yield
        except BaseException:
            with suppress(psycopg.Error):
                await conn.rollback()
            raise
        await conn.commit()

    def _maintain_again(self) -> None:
        self._timer = None
        self.maintain()
        if self._idle:
            self._timer = asyncio.get_running_loop().call_later(_IDLE_FOR, self._maintain_again)

    async def _take(self, until: float) -> Pooled[AsyncConn]:
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

    async def _new(self, until: float) -> Pooled[AsyncConn]:
        left = max(until - monotonic(), AT_LEAST)
        try:
            async with asyncio.timeout(left):
                return await self._reach(until)
        except TimeoutError:
            raise self._outage or NoAnswer(left) from None

    async def _reach(self, until: float) -> Pooled[AsyncConn]:
        while True:
            if self._outage is None:
                pooled = await self._attempt(until)
            else:
                async with self._turn:
                    if not self._away:
                        continue
                    await asyncio.sleep(max(self._next_at - monotonic(), 0))
                    pooled = await self._attempt(until)
            if pooled is not None:
                return pooled

    async def _attempt(self, until: float) -> Pooled[AsyncConn] | None:
        try:
            return self._reached(await self._connect(until))
        except (*DRIVER_ERRORS, StandbyRefused) as error:
            self._met(error)
            return None

    async def _connect(self, until: float) -> AsyncConn:
        conn = await AsyncConnection.connect(self._dsn, **self._options(until))
        try:
            with AsyncAnswerLimit(conn, self._left(until)):
                row = await (await conn.execute(ABOUT)).fetchone()
                assert row is not None
                refuse_standby(row[0])
                # Each statement of a transaction must see everything that committed before it
                # (withdraw.sql relies on it), whatever the default of the database.
                await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
                # Behind a pooler nothing relies on the session (see connect.py).
                if row[1] == conn.info.backend_pid:
                    self._who[conn] = row[1], row[2]
                    await conn.execute(CLIENT_SESSION)
                    await conn.execute(SESSION_LOCKS, self._lock_timeout)
                    conn.prepare_threshold = PREPARE_AFTER
        except BaseException:
            conn.pgconn.finish()
            raise
        return conn
