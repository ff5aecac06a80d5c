"""Options that commands share, and the app that they make of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from headway.app import Headway
from headway.core.config import DEFAULT_SCHEMA
from headway.core.duration import seconds
from headway.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

_DEBUG = "headway.debug"


def wants_traceback(ctx: click.Context) -> bool:
    """Whether `--debug` was given to the command that runs."""
    return bool(ctx.meta.get(_DEBUG))


def debug(command: F) -> F:
    """Adds `--debug`."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_DEBUG] = value

    return click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Show the traceback of an error.",
    )(command)


def place(command: F) -> F:
    """Adds `--dsn` and `--schema`, both none if not given."""
    dsn = click.option("--dsn", metavar="DSN", help="The database; see `headway --help`.")
    schema = click.option(
        "--schema", metavar="NAME", help=f"Headway's schema in it (default: {DEFAULT_SCHEMA})."
    )
    return dsn(schema(debug(command)))


def plain_app(dsn: str | None, schema: str | None) -> Headway:
    """An app without tasks, for one thing after the other; where it is not told, as configured."""
    hw = Headway(pool_size=1)
    hw.session.redirect(dsn=dsn, schema=schema)
    return hw


def database(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options above; the command's first argument is an app without tasks on that place."""

    @functools.wraps(command)
    def run(*, dsn: str | None, schema: str | None, **options: Any) -> None:
        hw = plain_app(dsn, schema)
        try:
            command(hw, **options)
        finally:
            hw.close_sync()

    return place(run)


def as_json(command: F) -> F:
    """Adds `--json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, for programs, and nothing else."
    )(command)


def duration(text: str) -> float:
    """Reads "90s", "10m", "1h30m" or a number of seconds."""
    try:
        return seconds(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


def given(**options: Any) -> Mapping[str, Any]:
    """The options that were given; those that were not leave the default where it is defined."""
    return {name: value for name, value in options.items() if value is not None}
