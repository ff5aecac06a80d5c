"""Exit codes, the code of each error, and the line that reports it."""

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
FAILED = 1
REFUSED = 2
UNREACHABLE = 3
DEFECT = 4


def exit_code(error: HeadwayError) -> int:
    """Return the exit code of a command that failed with this error."""
    match error:
        case JobNotFound() | ScheduleNotFound() | JobFailed() | ResultTimeout() | KeyTaken():
            return FAILED
        case SchemaMismatch():
            return REFUSED
        case DatabaseUnavailable() | DatabaseError() | EmbeddedUnavailable():
            return UNREACHABLE
        case _:
            return REFUSED


def complain(words: str) -> None:
    """Print an error as one line on standard error."""
    line = printable(" ".join(words.split()))
    click.echo(f"{click.style('error:', fg='red', bold=True)} {line}", err=True)


class CommandFailed(click.ClickException):
    """A named thing does not exist or cannot change. A selection that matches nothing is a success."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        complain(self.message)


class CommandRefused(CommandFailed):
    """The command needs other words or options."""

    exit_code = REFUSED


_REFUSED_BY_SQL = "22023"


@contextmanager
def refusals_explained() -> Generator[None]:
    """Raise CommandRefused, with the hint, if an SQL function refuses its arguments."""
    try:
        yield
    except DatabaseError as error:
        diag = getattr(error.__cause__, "diag", None)
        if error.sqlstate != _REFUSED_BY_SQL or diag is None:
            raise
        hint = (diag.message_hint or "").replace("no_keys => true", "--no-keys")
        raise CommandRefused(f"{diag.message_primary}. {hint}") from error
