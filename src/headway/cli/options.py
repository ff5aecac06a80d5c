"""Options that commands share, and the app that they make of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from headway.app import Headway
from headway.cli.output import clean
from headway.core.config import DEFAULT_SCHEMA
from headway.core.duration import seconds
from headway.errors import ConfigError
from headway.store.dsn import Place

F = TypeVar("F", bound=Callable[..., Any])

_DEBUG = "headway.debug"
PATIENCE = 2.0
"""Seconds that a command tries to reach the server: someone waits at the terminal."""


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
    hw.session.patience = PATIENCE
    hw.session.redirect(dsn=dsn, schema=schema)
    return careful(hw)


def careful(hw: Headway) -> Headway:
    """The app, which makes no embedded server and says on standard error that it uses one."""
    hw.session.may_create = False
    hw.session.told = _say_embedded
    return hw


def announce(hw: Headway) -> None:
    """Says on standard error which database is about to be changed, once it has answered."""
    hw.session.client.open_sync()
    if not hw.session.place.embedded:  # else it has been said
        click.echo(f"on {clean(str(hw.session.place))}", err=True)


def _say_embedded(place: Place, data: Path) -> None:
    words = f"note: no database is named; using {place}, with its data in {data}"
    click.echo(clean(words), err=True)


def database(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options above; the command's first argument is an app without tasks on that place."""
    return _on_place(command, before=lambda hw: None)


def changed_database(command: Callable[..., None]) -> Callable[..., None]:
    """As `database`, for a command that changes something: it names the place first."""
    return _on_place(command, before=announce)


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
