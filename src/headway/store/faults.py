"""Which of the driver's errors pass by themselves, and which last.

A passing fault becomes `DatabaseUnavailable`: the connection is dropped and the same work is tried
again, with backoff. A lasting one becomes `DatabaseError` with the server's own words.
"""

from __future__ import annotations

from uuid import UUID

import psycopg
import psycopg_pool
from psycopg import errors as pg

from headway.errors import (
    ConfigError,
    DatabaseError,
    DatabaseUnavailable,
    HeadwayError,
    KeyTaken,
    SchemaMismatch,
)

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

KEY_TAKEN = "HW001"  # raised by enqueue_jobs, with the id of the holder as its detail

SCHEMA_ERRORS = (
    pg.UndefinedTable,
    pg.UndefinedColumn,
    pg.UndefinedFunction,
    pg.InvalidSchemaName,
)
DRIVER_ERRORS = (
    psycopg.Error,
    psycopg_pool.PoolTimeout,
    psycopg_pool.PoolClosed,
    OSError,
    UnicodeEncodeError,  # of a text on its way out
)


def is_passing(error: BaseException) -> bool:
    """Whether trying again, on a new connection, may work."""
    if isinstance(error, psycopg_pool.PoolTimeout | OSError):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        # No answer from the server: the connection broke, or could not be made.
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if isinstance(error, pg.CheckViolation) and error.diag.table_name:
        # Not of a rule with a name: its partition was attached while the row was on its way to another.
        return error.diag.constraint_name is None
    return state in _PASSING_STATES or state.startswith(_PASSING_CLASSES)


def translate(error: BaseException) -> HeadwayError:
    """The Headway error for one of the driver's."""
    if isinstance(error, HeadwayError):
        return error
    if isinstance(error, psycopg.Error) and error.sqlstate == KEY_TAKEN:
        return KeyTaken(error.diag.message_primary or "", UUID(error.diag.message_detail or ""))
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UnicodeEncodeError):
        return ConfigError(
            f"text that is not Unicode cannot be stored ({error.reason}); leave it out"
        )
    if isinstance(error, psycopg.DataError) and error.sqlstate is None and "NUL" in words:
        return ConfigError("text with a NUL character (U+0000) cannot be stored; leave it out")
    if isinstance(error, pg.LockNotAvailable):
        return DatabaseUnavailable(f"{words}; someone's open transaction has what is needed")
    if isinstance(error, SCHEMA_ERRORS):
        return SchemaMismatch(
            f"{words}; the schema does not fit this library: run `headway migrate`"
        )
    if isinstance(error, pg.InvalidPassword | pg.InvalidAuthorizationSpecification):
        return DatabaseError(f"{words}; check the user and password of the DSN")
    if is_passing(error):
        return DatabaseUnavailable(f"{words}; check that the server is up and the DSN is right")
    refused = DatabaseError(words)
    refused.sqlstate = getattr(error, "sqlstate", None)
    return refused


def is_held_up(error: BaseException) -> bool:
    """Whether what was refused waited too long for a lock: someone's transaction is open."""
    return isinstance(error.__cause__, pg.LockNotAvailable)


def is_about_data(error: BaseException) -> bool:
    """Whether the server refused the values it was given, rather than the statement."""
    state = error.sqlstate if isinstance(error, DatabaseError) else None
    return state is not None and state[:2] in ("22", "23", "54")
