"""Finding the app that a command is told of as `module:attribute`."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import traceback
from pathlib import Path

from headway.app import Headway
from headway.errors import ConfigError

_ATTRIBUTE = "hw"


def load_app(spec: str, *, dsn: str | None = None, schema: str | None = None) -> Headway:
    """The app at `module:attribute`, on another database or schema if these are given."""
    module, _, attribute = spec.partition(":")
    if module.endswith(".py") or "/" in module:
        name = ".".join(Path(module).with_suffix("").parts)
        raise ConfigError(f"{spec!r} is a path; name the module instead: {name}:{_ATTRIBUTE}")
    if dsn is not None:
        # For the processes that the app starts: they import it again.
        os.environ["HEADWAY_DATABASE_URL"] = dsn
    app = _attribute(_module(module), attribute or _ATTRIBUTE)
    app.session.redirect(dsn=dsn, schema=schema)
    app.session.load_again = functools.partial(load_app, spec, dsn=dsn, schema=schema)
    return app


def _module(name: str) -> object:
    try:
        here = os.getcwd()
    except FileNotFoundError:
        raise ConfigError(
            f"the working directory has been deleted, so {name!r} cannot be looked for there; "
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
            f"there is no module {error.name!r} here ({os.getcwd()}) or among what is installed; "
            "start the command where the module is, or set PYTHONPATH"
        )
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError):
        where = ""  # its own words say where
    return f"{type(error).__name__}: {error}{where}; --debug shows the traceback"


def _attribute(module: object, name: str) -> Headway:
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(_missing(module, name))
        found = getattr(found, part)
    if not isinstance(found, Headway):
        raise ConfigError(
            f"{_name(module)}:{name} is not a Headway but {type(found).__name__!r}{_hint(module)}"
        )
    return found


def _missing(module: object, name: str) -> str:
    return f"module {_name(module)!r} has no {name!r}{_hint(module)}"


def _hint(module: object) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, Headway)]
    if apps:
        return f"; it has {', '.join(f'{_name(module)}:{app}' for app in apps)}"
    return f"; define an app there: {_ATTRIBUTE} = Headway()"


def _name(module: object) -> str:
    return str(getattr(module, "__name__", module))
