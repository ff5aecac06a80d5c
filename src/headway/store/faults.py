"""Which of the driver's errors pass by themselves, and which last.

A passing fault becomes `DatabaseUnavailable`: the connection is dropped and the same work is tried
again, with backoff. A lasting one becomes `DatabaseError` with the server's own words.
"""

from __future__ import annotations

import re
from uuid import UUID

import msgspec
import psycopg
from psycopg import errors as pg

from headway.errors import (
    ConfigError,
    DatabaseError,
    DatabaseUnavailable,
    HeadwayError,
    KeyTaken,
    SchemaMismatch,
)
from headway.store.rights import DENIED

_PASSING_CLASSES = ("08", "53", "57P", "58")
_PASSING_STATES = frozenset(
    {
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "55P03",  # lock_not_available
        "57014",  # query_canceled: our own statement timeout
        "25006",  # read_only_sql_transaction: the primary became a standby
        "26000",  # invalid_sql_statement_name: a pooler moved us to another server connection
        "0A000",  # cached plan must not change result type: a migration ran beside us
        "25P02",  # in_failed_sql_transaction: a pipeline's later statements
    }
)

_MOST_WORDS = 200
_SEVERAL = "Multiple connection attempts failed. All failures were:"
_ATTEMPT = re.compile(r"'?(.*?)'?, port: '?(.*?)'?, hostaddr: .*?: (.*)")
_HINTS = (
    " Is the server running on that host and accepting TCP/IP connections?",
    " This probably means the server terminated abnormally before or while processing the request.",
)

_REFUSED_LOGIN = re.compile(
    r'password authentication failed|(database|role) "[^"]*" does not exist|no pg_hba\.conf entry'
    r"|no such (user|database)"
)
"""The driver gives no code for a refused login. Trying again does not change these."""

KEY_TAKEN = "HW001"  # raised by enqueue_jobs, with the id of the holder as its detail

SCHEMA_ERRORS = (
    pg.UndefinedTable,
    pg.UndefinedColumn,
    pg.UndefinedFunction,
    pg.InvalidSchemaName,
)
_NOT_WRITABLE = (
    UnicodeError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    msgspec.MsgspecError,
)
"""What an encoder raises for a value that cannot be written down."""

OWN_CUT = "the worker cut its connection, because an answer was overdue; it connects again"

DRIVER_ERRORS = (
    psycopg.Error,
    OSError,
    UnicodeEncodeError,  # of a text on its way out
)


def is_passing(error: BaseException) -> bool:
    """Whether trying again, on a new connection, may work."""
    if isinstance(error, OSError):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        # No answer from the server: the connection broke, or could not be made.
        broke = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return broke and not is_refused_login(error)
    if isinstance(error, pg.CheckViolation) and error.diag.table_name:
        # Not of a rule with a name: its partition was attached while the row was on its way to another.
        return error.diag.constraint_name is None
    return state in _PASSING_STATES or state.startswith(_PASSING_CLASSES)


def translate(error: BaseException, advice: str | None = None) -> HeadwayError:
    """Return the Headway error for one of the driver's. `advice` says what to do for a login that may
    not do it (store/rights.py)."""
    if isinstance(error, HeadwayError):
        return error
    if isinstance(error, psycopg.Error) and error.sqlstate == KEY_TAKEN:
        return KeyTaken(error.diag.message_primary or "", UUID(error.diag.message_detail or ""))
    said = words(error)
    if isinstance(error, UnicodeEncodeError):
        return ConfigError(
            f"text that is not Unicode cannot be stored ({error.reason}); leave it out"
        )
    if isinstance(error, psycopg.DataError) and error.sqlstate is None and "NUL" in said:
        return ConfigError("text with a NUL character (U+0000) cannot be stored; leave it out")
    if isinstance(error, pg.LockNotAvailable):
        return DatabaseUnavailable(f"{said}; someone's open transaction has what is needed")
    if isinstance(error, SCHEMA_ERRORS):
        return SchemaMismatch(
            f"{said}; the schema does not fit this library: run `headway migrate`"
        )
    if is_refused_login(error):
        return DatabaseError(f"{said}; check user, password and database of the DSN")
    if is_passing(error):
        return DatabaseUnavailable(f"{said}; check that the server is up and the DSN is right")
    state = getattr(error, "sqlstate", None)
    if advice and state == DENIED:
        said = f"{said.partition(' LINE ')[0]}; {advice}"  # where in our SQL is of no use
    refused = DatabaseError(said)
    refused.sqlstate = state
    return refused


def words(error: BaseException) -> str:
    """Return what the driver says, in one line; briefly where no server said it.

    For a DSN with several hosts the driver writes 300 characters about each of them.
    """
    words = " ".join(str(error).split()) or type(error).__name__
    if getattr(error, "sqlstate", None) is not None:
        return words
    if not is_passing(error) and not is_refused_login(error):
        return words
    for hint in _HINTS:
        words = words.replace(hint, "")
    _, several, attempts = words.partition(_SEVERAL)
    if several:
        causes = (
            attempt.groups()
            for attempt in map(_ATTEMPT.match, attempts.split("- host: "))
            if attempt
        )
        words = "connection failed: " + ", ".join(
            f"{host}:{port} {said.rpartition('failed: ')[2].strip()}" for host, port, said in causes
        )
    return words if len(words) <= _MOST_WORDS else words[: _MOST_WORDS - 3] + "..."


def is_refused_login(error: BaseException) -> bool:
    """Return whether the server answered that it does not let this user in."""
    states = pg.InvalidPassword | pg.InvalidAuthorizationSpecification | pg.InvalidCatalogName
    return isinstance(error, states) or (
        isinstance(error, psycopg.OperationalError)
        and error.sqlstate is None
        and _REFUSED_LOGIN.search(str(error)) is not None
    )


def is_held_up(error: BaseException) -> bool:
    """Whether what was refused waited too long for a lock: someone's transaction is open."""
    return isinstance(error.__cause__, pg.LockNotAvailable)


def is_about_data(error: BaseException) -> bool:
    """Return whether the values of a statement were refused, by the server, the driver or the
    encoder, rather than the statement itself."""
    cause = error.__cause__ if isinstance(error, HeadwayError) else error
    if isinstance(cause, _NOT_WRITABLE):
        return True
    if isinstance(cause, psycopg.DataError) and cause.sqlstate is None:
        return True  # refused by the driver
    state = error.sqlstate if isinstance(error, DatabaseError) else None
    return state is not None and state[:2] in ("22", "23", "54")


def is_too_slow(error: BaseException) -> bool:
    """Return whether a statement ran into its timeout at the server: less at a time may work."""
    return isinstance(error.__cause__, pg.QueryCanceled)
