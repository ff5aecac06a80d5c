"""Exit codes, and which error means which."""

from __future__ import annotations

from headway.errors import (
    DatabaseError,
    DatabaseUnavailable,
    EmbeddedUnavailable,
    HeadwayError,
    JobFailed,
    JobNotFound,
    ResultTimeout,
    SchemaMismatch,
)

OK = 0
DOES_NOT_HOLD = 1
WRONG = 2
UNREACHABLE = 3
DEFECT = 4


def exit_code(error: HeadwayError) -> int:
    """The code that a command ends with after this error."""
    match error:
        case JobNotFound() | JobFailed() | ResultTimeout():
            return DOES_NOT_HOLD
        case SchemaMismatch():
            return WRONG
        case DatabaseUnavailable() | DatabaseError() | EmbeddedUnavailable():
            return UNREACHABLE
        case _:
            return WRONG
