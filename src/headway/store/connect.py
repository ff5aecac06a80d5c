"""Opening connections: what is asked of the server, and what is refused.

- Keepalives and a user timeout, so that a black-holed network is noticed in seconds rather than
  in the two hours of the kernel's default. A peer whose kernel takes everything while nobody answers
  (a hung pooler, a stopped backend) escapes both: for that there is `answer_within`.
- A standby is refused, at connection and (25006, see faults.py) when a primary turns into one.
- A pooler in between is recognised by its made-up backend pid. Through one, nothing of the session
  is relied on: no SET, no prepared statements; each round trip is a transaction that states
  its isolation level itself.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from headway.errors import ConfigError, StandbyRefused

AsyncLink = AsyncConnection[TupleRow]
SyncLink = Connection[TupleRow]

_CONNECT_WITHIN = 5

# What libpq quotes of a DSN that it cannot read may be a password; the name of an option is none.
_NAMES_AN_OPTION = re.compile(r'invalid (?:connection option|URI query parameter:) "\w+"')
_QUOTED_OF_IT = re.compile(r'(?s) after ".*"(?= in connection info string)|: ".*"$')
_PORTS = re.compile(r"[\d,]*", re.ASCII)

_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": _CONNECT_WITHIN,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "headway",
}

# Ours alone, on connections of the engine's own. Plans are made for tables whose statistics are
# always behind: a sequential scan or a compiled plan is never what we want, an index always is, and
# a plan made anew for each batch costs more than it finds out. What is looked up differs each time, so
# that nothing is gained by remembering it.
_ENGINE_SESSION = """
set default_transaction_isolation = 'read committed';
set default_transaction_read_only = off;
set enable_seqscan = off;
set enable_memoize = off;
set jit = off;
set plan_cache_mode = force_generic_plan;
set statement_timeout = '30s';
set lock_timeout = '10s';
set idle_in_transaction_session_timeout = '60s';
set random_page_cost = 0.01
"""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the database is, and which schema in it is ours."""

    dsn: str = field(repr=False)
    schema: str
    notify: bool = True

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
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        words = " ".join(str(error).split())
        if not _NAMES_AN_OPTION.fullmatch(words):
            words = _QUOTED_OF_IT.sub("", words)
        raise _unreadable(words) from None
    if not _PORTS.fullmatch(str(given.get("port") or "")):
        raise _unreadable("its port is no number; write / as %2F in a password")
    return make_conninfo(
        dsn, **{key: value for key, value in _DEFAULTS.items() if key not in given}
    )


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"the DSN cannot be read ({why}); write it like postgresql://user:password@host:5432/database"
    )


async def connect(target: Target) -> AsyncLink:
    """A connection of the engine's own."""
    conn = await AsyncConnection.connect(target.dsn, autocommit=True, prepare_threshold=None)
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


def connect_sync(target: Target) -> SyncLink:
    """A connection for a caller who waits in a thread."""
    conn = Connection.connect(target.dsn, autocommit=True, prepare_threshold=None)
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
