"""Opens connections, and refuses servers that do not fit.

- Keepalives and a user timeout: a black-holed network is noticed in seconds, not in the two hours of the
  kernel's default. They miss a peer whose kernel accepts everything while its process does not answer (a
  hung pooler, a stopped backend). `answer_within` is for that.
- A standby is refused when connecting. A primary that turns into a standby is refused later (25006, see
  faults.py).
- A pooler is recognised by its made-up backend pid. Behind one, nothing relies on the session: no SET, no
  prepared statements. Each round trip is a transaction that sets its isolation level and the engine's
  settings itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import LiteralString

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from headway.errors import StandbyRefused
from headway.store.connections.dsn import plain_dsn, read_dsn

AsyncConn = AsyncConnection[TupleRow]
SyncConn = Connection[TupleRow]

_CONNECT_WITHIN = 5

_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": _CONNECT_WITHIN,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "headway",
}
_FORCED = {"client_encoding": "UTF8"}
"""These override the DSN: with another value the driver would use another encoding for text."""

PINNED: dict[LiteralString, LiteralString] = {
    "search_path": "pg_catalog, pg_temp",  # a user's function cannot replace one of the server's
    "datestyle": "ISO, MDY",  # the only one that the driver reads
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
}
"""Settings that our statements and the driver depend on. They override those of the server, the database
and the role. Handlers keep the user's own search_path (handler_transactions.py)."""

# For engine connections only. Statistics of these tables are always out of date.
# - An index scan is always right, a sequential scan or a compiled plan never is.
# - A new plan for each batch costs more than it gains.
# - Each lookup has another value, so memoizing gains nothing.
_SETTINGS: dict[LiteralString, LiteralString] = {
    "enable_seqscan": "off",
    "enable_memoize": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "random_page_cost": "0.01",
}


def _session(
    settings: Mapping[LiteralString, LiteralString], local: LiteralString = "false"
) -> LiteralString:
    names = ", ".join(
        f"set_config('{name}', '{value}', {local})" for name, value in settings.items()
    )
    return f"select {names}"


_WRITABLE: dict[LiteralString, LiteralString] = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
}
_FOR_CALLS: dict[LiteralString, LiteralString] = {**PINNED, "lock_timeout": "10s"}
_ENGINE_SESSION = _session(_WRITABLE | PINNED | _SETTINGS)
CLIENT_SESSION = _session(_WRITABLE | _FOR_CALLS)
"""For connections of user code. They wait for a lock of another transaction, but only for a while."""

_FOR_HANDLERS: dict[LiteralString, LiteralString] = {
    name: value for name, value in PINNED.items() if name != "search_path"
}
HANDLER_SESSION = _session(_WRITABLE | _FOR_HANDLERS)
"""For connections of handlers, whose own statements find the user's tables by the user's search_path."""

ENGINE_TRANSACTION: tuple[LiteralString, ...] = (
    "begin isolation level read committed read write",
    _session(PINNED | _SETTINGS, "true"),
)
"""Opens a transaction with the same settings behind a pooler, which does not keep those of a session."""

CLIENT_TRANSACTION: LiteralString = "begin isolation level read committed read write; " + _session(
    _FOR_CALLS, "true"
)
"""The same for calls of user code, in one message."""

HANDLER_TRANSACTION = _session(_FOR_HANDLERS, "true")
"""The same for handlers, after BEGIN."""


@dataclass(frozen=True, slots=True)
class Target:
    """A database and Headway's schema in it."""

    dsn: str = field(repr=False)
    schema: str
    notify: bool = True
    away: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Called when connecting fails, to start an embedded server again. It must not block."""

    @property
    def work_channel(self) -> str | None:
        """The channel that tells workers of work, or None if notifications are turned off."""
        return f"{self.schema}_work" if self.notify else None

    @property
    def done_channel(self) -> str | None:
        """The channel that tells callers of results, or None if notifications are turned off."""
        return f"{self.schema}_done" if self.notify else None

    def named(self, name: str) -> Target:
        """Return the same target with another application name in pg_stat_activity."""
        return replace(self, dsn=make_conninfo(self.dsn, application_name=name))


def complete_dsn(dsn: str) -> str:
    """Return the DSN with our defaults for options that it does not set."""
    dsn = plain_dsn(dsn)
    given = read_dsn(dsn)
    missing = {key: value for key, value in _DEFAULTS.items() if key not in given}
    return make_conninfo(dsn, **missing, **_FORCED)


async def connect(target: Target) -> AsyncConn:
    """Return a new connection for the engine."""
    try:
        conn = await AsyncConnection.connect(target.dsn, autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError:
        if target.away is not None:
            target.away()
        raise
    try:
        with answer_within(conn, _CONNECT_WITHIN):
            recovery, pid = await _about(conn)
            refuse_standby(recovery)
            if pid == conn.info.backend_pid:
                await conn.execute(_ENGINE_SESSION)
                # With None the driver prepares nothing, not even with prepare=True.
                conn.prepare_threshold = 0
            else:
                await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    except BaseException:
        await conn.close()
        raise
    return conn


def connect_sync(target: Target, within: float = _CONNECT_WITHIN) -> SyncConn:
    """Return a new connection for a caller in a thread, or fail within this many seconds."""
    dsn = target.dsn
    if within < _CONNECT_WITHIN:
        dsn = make_conninfo(dsn, connect_timeout=max(round(within), 1))
    conn = Connection.connect(dsn, autocommit=True, prepare_threshold=None)
    refuse_standby(conn.info.parameter_status("in_hot_standby") == "on")
    return conn


@contextmanager
def answer_within(conn: AsyncConn | SyncConn, seconds: float) -> Generator[None, None, None]:
    """Cut a connection that has not answered after `seconds`. It then fails like any broken one."""
    timer = asyncio.get_running_loop().call_later(seconds, cut, conn)
    try:
        yield
    finally:
        timer.cancel()


def cut(conn: AsyncConn | SyncConn) -> None:
    """Shut down a connection's socket, so that the wait for an answer fails at once.

    Cancelling the wait does not work: the driver would ask the server to cancel, over the same network,
    and wait for the answer to that.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)


def times_cancelled() -> int:
    """Return how often the running task was cancelled.

    Before Python 3.12 the driver loses a cancellation that arrives together with an answer: its wait_for
    returns the answer instead. A caller that loops over statements would then never end.
    """
    if sys.version_info >= (3, 12):
        return 0
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def is_direct(conn: AsyncConn) -> bool:
    """Return whether there is no pooler in between, as found when the connection was opened."""
    return conn.isolation_level is None


async def _about(conn: AsyncConn) -> tuple[bool, int]:
    row = await (await conn.execute("select pg_is_in_recovery(), pg_backend_pid()")).fetchone()
    assert row is not None
    return bool(row[0]), int(row[1])


def refuse_standby(recovery: bool) -> None:
    if recovery:
        raise StandbyRefused(
            "the server is a standby (pg_is_in_recovery); point the DSN at the primary, or list all "
            "hosts and add target_session_attrs=read-write"
        )
