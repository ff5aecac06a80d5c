"""Classifies the driver's errors: passing (a retry may work) or lasting.

A passing fault becomes `DatabaseUnavailable`: the caller drops the connection and tries again, with
backoff. A lasting fault becomes `DatabaseError` with the server's own message.
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
        "0A000",  # cached plan must not change result type: a migration ran meanwhile
        "25P03",  # idle_in_transaction_session_timeout: the server ended the connection
        "25P04",  # transaction_timeout: the same
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
"""Errors that an encoder raises for a value that it cannot write."""

OWN_CUT = "the worker closed its connection because an answer was overdue; it will reconnect"

DRIVER_ERRORS = (
    psycopg.Error,
    OSError,
    UnicodeEncodeError,  # for text in a parameter
)


def is_passing(error: BaseException) -> bool:
    """Return whether another try on a new connection may work."""
    if isinstance(error, OSError):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        # The server did not answer: the connection broke, or could not be made.
        broke = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return broke and not is_refused_login(error)
    if isinstance(error, pg.CheckViolation) and error.diag.table_name:
        # A violation without a constraint name: a partition for the row was attached during the insert.
        return error.diag.constraint_name is None
    return state in _PASSING_STATES or state.startswith(_PASSING_CLASSES)


def translate(error: BaseException, advice: str | None = None) -> HeadwayError:
    """Return the Headway error for one of the driver's.

    `advice` tells a login without the necessary rights what to do (store/rights.py).
    """
    if isinstance(error, HeadwayError):
        return error
    if isinstance(error, psycopg.Error) and error.sqlstate == KEY_TAKEN:
        return KeyTaken(error.diag.message_primary or "", UUID(error.diag.message_detail or ""))
    message = words(error)
    if isinstance(error, UnicodeEncodeError):
        return ConfigError(
            f"text that is not valid Unicode cannot be stored ({error.reason}); remove it"
        )
    if isinstance(error, psycopg.DataError) and error.sqlstate is None and "NUL" in message:
        return ConfigError("text with a NUL character (U+0000) cannot be stored; remove it")
    if isinstance(error, pg.LockNotAvailable):
        return DatabaseUnavailable(
            f"{message}; an open transaction of another session holds a lock that it needs"
        )
    if isinstance(error, SCHEMA_ERRORS):
        return SchemaMismatch(
            f"{message}; the schema does not fit this library: run `headway migrate`"
        )
    if is_refused_login(error):
        return DatabaseError(f"{message}; check user, password and database of the DSN")
    if is_passing(error):
        return DatabaseUnavailable(f"{message}; check that the server is up and the DSN is right")
    state = getattr(error, "sqlstate", None)
    if advice and state == DENIED:
        # The user cannot use a position in our SQL.
        message = f"{message.partition(' LINE ')[0]}; {advice}"
    refused = DatabaseError(message)
    refused.sqlstate = state
    return refused


def words(error: BaseException) -> str:
    """Return the driver's message in one line. Shorten it if it does not come from a server.

    For a DSN with several hosts the driver writes 300 characters about each host.
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
            f"{host}:{port} {cause.rpartition('failed: ')[2].strip()}"
            for host, port, cause in causes
        )
    return words if len(words) <= _MOST_WORDS else words[: _MOST_WORDS - 3] + "..."


def is_refused_login(error: BaseException) -> bool:
    """Return whether the server refused the login."""
    states = pg.InvalidPassword | pg.InvalidAuthorizationSpecification | pg.InvalidCatalogName
    return isinstance(error, states) or (
        isinstance(error, psycopg.OperationalError)
        and error.sqlstate is None
        and _REFUSED_LOGIN.search(str(error)) is not None
    )


def is_held_up(error: BaseException) -> bool:
    """Return whether a statement waited too long for a lock, because another transaction is open."""
    return isinstance(error.__cause__, pg.LockNotAvailable)


def is_about_data(error: BaseException) -> bool:
    """Return whether the values of a statement were refused, and not the statement itself.

    The server, the driver or the encoder may refuse them.
    """
    cause = error.__cause__ if isinstance(error, HeadwayError) else error
    if isinstance(cause, _NOT_WRITABLE):
        return True
    if isinstance(cause, psycopg.DataError) and cause.sqlstate is None:
        return True  # refused by the driver
    state = error.sqlstate if isinstance(error, DatabaseError) else None
    return state is not None and state[:2] in ("22", "23", "54")


def is_too_slow(error: BaseException) -> bool:
    """Return whether a statement ran into its timeout at the server. A smaller batch may work."""
    return isinstance(error.__cause__, pg.QueryCanceled)
