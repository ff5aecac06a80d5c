"""Opening connections: what is asked of the server, and what is refused.

- Keepalives and a user timeout, so that a black-holed network is noticed in seconds rather than
  in the two hours of the kernel's default. A peer whose kernel takes everything while nobody answers
  (a hung pooler, a stopped backend) escapes both: for that there is `answer_within`.
- A standby is refused, at connection and (25006, see faults.py) when a primary turns into one.
- A pooler in between is recognised by its made-up backend pid. Through one, nothing of the session
  is relied on: no SET, no prepared statements. Each round trip is a transaction that states its
  isolation level and the engine's settings itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import LiteralString

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from headway.errors import StandbyRefused
from headway.store.dsn import plain_dsn, read_dsn

AsyncLink = AsyncConnection[TupleRow]
SyncLink = Connection[TupleRow]

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
"""Of a DSN that says otherwise: the driver would read and write text in another encoding."""

PINNED: dict[LiteralString, LiteralString] = {
    "search_path": "pg_catalog, pg_temp",  # nobody's function is taken for one of the server's
    "datestyle": "ISO, MDY",  # the driver reads no other
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
}
"""Settings that our statements and the driver depend on, whatever the server, the database or the role
say. Connections that a handler works on have the user's own search_path (transactions.py)."""

# Ours alone, on connections of the engine's own. Plans are made for tables whose statistics are
# always behind: a sequential scan or a compiled plan is never what we want, an index always is, and
# a plan made anew for each batch costs more than it finds out. What is looked up differs each time, so
# that nothing is gained by remembering it.
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


def _session(settings: Mapping[LiteralString, LiteralString]) -> LiteralString:
    names = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    return f"select {names}"


_WRITABLE: dict[LiteralString, LiteralString] = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
}
_FOR_CALLS: dict[LiteralString, LiteralString] = {**PINNED, "lock_timeout": "10s"}
_ENGINE_SESSION = _session(_WRITABLE | PINNED | _SETTINGS)
CLIENT_SESSION = _session(_WRITABLE | _FOR_CALLS)
"""For user code's own connections. The lock of a stranger's transaction is waited for, not for ever."""

ENGINE_TRANSACTION: tuple[LiteralString, ...] = (
    "begin isolation level read committed read write",
    "select "
    + ", ".join(
        f"set_config('{name}', '{value}', true)" for name, value in (PINNED | _SETTINGS).items()
    ),
)
"""Opens a transaction with the same settings, where a pooler keeps none of the session's."""

CLIENT_TRANSACTION: LiteralString = (
    "begin isolation level read committed read write; select "
    + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _FOR_CALLS.items())
)
"""The same for calls of user code, in one message."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the database is, and which schema in it is ours."""

    dsn: str = field(repr=False)
    schema: str
    notify: bool = True
    away: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Called when no connection can be made; it must not block. An embedded server is started again."""

    @property
    def work_channel(self) -> str | None:
        """Where workers hear of work; none if notifications are turned off."""
        return f"{self.schema}_work" if self.notify else None

    @property
    def done_channel(self) -> str | None:
        """Where those who wait for a result hear of it."""
        return f"{self.schema}_done" if self.notify else None

    def named(self, name: str) -> Target:
        """The same place, under another application name in pg_stat_activity."""
        return replace(self, dsn=make_conninfo(self.dsn, application_name=name))


def complete_dsn(dsn: str) -> str:
    """The DSN with our defaults for whatever it leaves open."""
    dsn = plain_dsn(dsn)
    given = read_dsn(dsn)
    missing = {key: value for key, value in _DEFAULTS.items() if key not in given}
    return make_conninfo(dsn, **missing, **_FORCED)


async def connect(target: Target) -> AsyncLink:
    """A connection of the engine's own."""
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
                # With none, the driver prepares nothing, not even what it is told to.
                conn.prepare_threshold = 0
            else:
                await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    except BaseException:
        await conn.close()
        raise
    return conn


def connect_sync(target: Target, within: float = _CONNECT_WITHIN) -> SyncLink:
    """Return a connection for a caller who waits in a thread, made within this many seconds."""
    dsn = target.dsn
    if within < _CONNECT_WITHIN:
        dsn = make_conninfo(dsn, connect_timeout=max(round(within), 1))
    conn = Connection.connect(dsn, autocommit=True, prepare_threshold=None)
    refuse_standby(conn.info.parameter_status("in_hot_standby") == "on")
    return conn


@contextmanager
def answer_within(conn: AsyncLink | SyncLink, seconds: float) -> Generator[None, None, None]:
    """Cuts a connection that has not answered after `seconds`; it then fails like any broken one."""
    timer = asyncio.get_running_loop().call_later(seconds, cut, conn)
    try:
        yield
    finally:
        timer.cancel()


def cut(conn: AsyncLink | SyncLink) -> None:
    """Shuts a connection's socket down, so that whoever waits for an answer is told at once.

    Cancelling the wait would not do: the driver then asks the server to cancel, over the same network,
    and waits for the answer to that.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)


def is_direct(conn: AsyncLink) -> bool:
    """Whether no pooler stands in between (as found out when it was opened)."""
    return conn.isolation_level is None


async def _about(conn: AsyncLink) -> tuple[bool, int]:
    row = await (await conn.execute("select pg_is_in_recovery(), pg_backend_pid()")).fetchone()
    assert row is not None
    return bool(row[0]), int(row[1])


def refuse_standby(recovery: bool) -> None:
    if recovery:
        raise StandbyRefused(
            "the server is a standby (pg_is_in_recovery); point the DSN at the primary, or list all "
            "hosts and add target_session_attrs=read-write"
        )
