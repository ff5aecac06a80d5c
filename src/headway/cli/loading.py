"""The app that a command works on: imported from `module:attribute`, or made without tasks.

This is the only module of the command line that configures an app beyond its public methods.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from headway import DatabasePlace
from headway.app import Headway, session_of
from headway.cli.output import clean
from headway.errors import ConfigError
from headway.settings.layers import Settings, load

_ATTRIBUTE = "hw"


@dataclass(frozen=True)
class Program:
    """The program that the command line is a part of, such as Django's `manage.py`."""

    app: str
    """Where its app is: `module:attribute`."""
    start: list[str]
    """The words that start its command line."""
    arguments: list[str]
    """The words that follow them now."""


CONNECT_TIMEOUT = 2.0
"""Seconds to try to reach the server: a person waits at the terminal."""


def program() -> Program:
    """Return the program that this command line is, or is a part of."""
    context = click.get_current_context(silent=True)
    found = None if context is None else context.find_root().obj
    if isinstance(found, Program):
        return found
    return Program("", [sys.executable, "-m", "headway"], sys.argv[1:])


def app_for(spec: str | None, *, dsn: str | None, schema: str | None) -> Headway:
    """Return the app at `module:attribute`, or one without tasks if there is none."""
    spec = spec or program().app
    if not spec:
        return plain_app(dsn, schema)
    return _careful(load_app(spec, dsn=dsn, schema=schema))


def plain_app(dsn: str | None, schema: str | None) -> Headway:
    """Return an app without tasks and with one connection, on the given or configured database."""
    if program().app and dsn is None:
        own = _found(program().app)
        session_of(own).redirect(schema=schema)
        dsn, schema = own.dsn, own.schema
    hw = Headway(pool_size=1)
    session_of(hw).timeout = CONNECT_TIMEOUT
    session_of(hw).redirect(dsn=dsn, schema=schema)
    return _careful(hw)


def read_settings(spec: str | None, *, dsn: str | None, schema: str | None) -> Settings:
    """Return all settings, those of the app's code included, without connecting."""
    spec = spec or program().app
    if not spec:
        hw = Headway()
        session_of(hw).redirect(dsn=dsn, schema=schema)
    else:
        load()  # report errors in files first, not as errors of importing the app
        hw = load_app(spec, dsn=dsn, schema=schema)
    return session_of(hw).read_settings()


@asynccontextmanager
async def opened(hw: Headway) -> AsyncGenerator[None]:
    """Open the app. Connecting has a short time limit for the terminal, later statements do not."""
    session_of(hw).timeout = CONNECT_TIMEOUT
    async with hw:
        session_of(hw).client.timeout = None
        yield


def is_open(hw: Headway) -> bool:
    """Return whether the app knows its database by now."""
    return session_of(hw).is_open


def _careful(hw: Headway) -> Headway:
    """Return the app, set to never create an embedded server and to say when it uses one."""
    session_of(hw).may_create = False
    session_of(hw).on_embedded = _say_embedded
    return hw


def _say_embedded(place: DatabasePlace, data: Path) -> None:
    words = f"note: no database is configured; using {place}, with its data in {data}"
    click.echo(clean(words), err=True)


def load_app(spec: str, *, dsn: str | None = None, schema: str | None = None) -> Headway:
    """Return the app at `module:attribute`, moved to the database and schema if given."""
    module = spec.partition(":")[0]
    if module.endswith(".py") or "/" in module:
        name = ".".join(Path(module).with_suffix("").parts)
        raise ConfigError(f"{spec!r} is a path; give the module instead: {name}:{_ATTRIBUTE}")
    if dsn is not None:
        # Processes of the app import it again and read this.
        os.environ["HEADWAY_DATABASE_URL"] = dsn
    app = _found(spec)
    session_of(app).redirect(dsn=dsn, schema=schema)
    if session_of(app).load_again is None or dsn is not None or schema is not None:
        session_of(app).load_again = functools.partial(load_app, spec, dsn=dsn, schema=schema)
    return app


def _found(spec: str) -> Headway:
    """Return the app at `module:attribute` as it is."""
    module, _, attribute = spec.partition(":")
    return _attribute(_module(module), attribute or _ATTRIBUTE)


def _module(name: str) -> object:
    try:
        here = os.getcwd()
    except FileNotFoundError:
        raise ConfigError(
            f"cannot import {name!r}: the working directory has been deleted; "
            "change to another directory"
        ) from None
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise ConfigError(f"cannot import {name!r}: {_reason(name, error)}") from error


def _reason(name: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and name.startswith(f"{error.name}"):
        return (
            f"no module {error.name!r} in {os.getcwd()} or among the installed packages; "
            "run the command in the directory of the module, or set PYTHONPATH"
        )
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError):
        where = ""  # the error itself names the line
    return f"{type(error).__name__}: {error}{where}; add --debug for the traceback"


def _attribute(module: object, name: str) -> Headway:
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(_missing(module, name))
        found = getattr(found, part)
    if not isinstance(found, Headway):
        raise ConfigError(
            f"{_name(module)}:{name} is not a Headway app but a {type(found).__name__}{_hint(module)}"
        )
    return found


def _missing(module: object, name: str) -> str:
    return f"module {_name(module)!r} has no attribute {name!r}{_hint(module)}"


def _hint(module: object) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, Headway)]
    if apps:
        return f"; use {' or '.join(f'{_name(module)}:{app}' for app in apps)}"
    return f"; define an app there: {_ATTRIBUTE} = Headway()"


def _name(module: object) -> str:
    return str(getattr(module, "__name__", module))
