"""Exit codes, which error means which, and the one line that it says."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any

import click

from headway.core.printable import printable
from headway.errors import (
    DatabaseError,
    DatabaseUnavailable,
    EmbeddedUnavailable,
    HeadwayError,
    JobFailed,
    JobNotFound,
    KeyTaken,
    ResultTimeout,
    ScheduleNotFound,
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
        case JobNotFound() | ScheduleNotFound() | JobFailed() | ResultTimeout() | KeyTaken():
            return DOES_NOT_HOLD
        case SchemaMismatch():
            return WRONG
        case DatabaseUnavailable() | DatabaseError() | EmbeddedUnavailable():
            return UNREACHABLE
        case _:
            return WRONG


def complain(words: str) -> None:
    """One line on standard error."""
    line = printable(" ".join(words.split()))
    click.echo(f"{click.style('error:', fg='red', bold=True)} {line}", err=True)


class DoesNotHold(click.ClickException):
    """Nothing is broken, but what was asked for is not so."""

    exit_code = DOES_NOT_HOLD

    def show(self, file: IO[Any] | None = None) -> None:
        complain(self.message)


class Refused(DoesNotHold):
    """It could be done, but not like this."""

    exit_code = WRONG


_REFUSED_BY_SQL = "22023"


@contextmanager
def refusals_explained() -> Generator[None]:
    """Raise `Refused`, with its hint, where a function of the schema refuses what it is given."""
    try:
        yield
    except DatabaseError as error:
        diag = getattr(error.__cause__, "diag", None)
        if error.sqlstate != _REFUSED_BY_SQL or diag is None:
            raise
        hint = (diag.message_hint or "").replace("no_keys => true", "--no-keys")
        raise Refused(f"{diag.message_primary}. {hint}") from error
