"""Options that commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from headway.app import Headway
from headway.cli.loading import plain_app, program
from headway.cli.output import clean
from headway.core.config import DEFAULT_SCHEMA

F = TypeVar("F", bound=Callable[..., Any])

_DEBUG = "headway.debug"


def wants_traceback(ctx: click.Context) -> bool:
    """Return whether the command has `--debug`."""
    return bool(ctx.meta.get(_DEBUG))


def debug(command: F) -> F:
    """Add `--debug`."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_DEBUG] = value

    return click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Show the traceback if the command fails.",
    )(command)


def app_option(words: str) -> Callable[[F], F]:
    """Add `--app`. A command of another program, such as `manage.py`, knows its app without it."""
    return click.option(
        "--app", metavar="MODULE:ATTRIBUTE", default=lambda: program().app or None, help=words
    )


def place(command: F) -> F:
    """Add `--dsn` and `--schema`, both None if not given."""
    dsn = click.option(
        "--dsn", metavar="DSN", help="Database to use; `headway --help` says which is the default."
    )
    schema = click.option(
        "--schema",
        metavar="NAME",
        help=f"Schema of Headway in the database (default: {DEFAULT_SCHEMA}).",
    )
    return dsn(schema(debug(command)))


def announce(hw: Headway) -> None:
    """Connect, and print on standard error which database the command works on."""
    hw.open_sync()
    if not hw.place.embedded:  # `loading` has printed it
        click.echo(f"using {clean(str(hw.place))}", err=True)


def database(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options above. The command gets an app without tasks as its first argument.

    It names the database first, on standard error.
    """
    return _on_place(command, before=announce)


def unopened_database(command: Callable[..., None]) -> Callable[..., None]:
    """Do the same for a command that opens the database and names it itself."""
    return _on_place(command, before=lambda hw: None)


def _on_place(
    command: Callable[..., None], before: Callable[[Headway], None]
) -> Callable[..., None]:
    @functools.wraps(command)
    def run(*, dsn: str | None, schema: str | None, **options: Any) -> None:
        hw = plain_app(dsn, schema)
        try:
            before(hw)
            command(hw, **options)
        finally:
            hw.close_sync()

    return place(run)


def as_json(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def given(**options: Any) -> Mapping[str, Any]:
    """Return the options that were given. The others keep their configured values."""
    return {name: value for name, value in options.items() if value is not None}
