"""The Headway app of a Django project, made from `settings.HEADWAY` and `settings.DATABASES`.

    HEADWAY = {"DATABASE": "default", "SCHEMA": "headway", "POOL_SIZE": 4}

`DATABASE` is an alias in DATABASES. The other keys are the options of `Headway(...)` in capitals.
"""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connections

from headway.app import Headway, session_of
from headway.core.config import DEFAULT_SCHEMA
from headway.django.connections import around_attempt, around_plain
from headway.errors import ConfigError
from headway.store.caller.django import dsn_of

_TAKEN = {"DSN", "LOCAL", "EMBEDDED"}
"""Options about the address of the database, which is in DATABASES."""


def _options() -> dict[str, Any]:
    given = getattr(settings, "HEADWAY", {})
    if not isinstance(given, Mapping) or not all(key == str(key).upper() for key in given):
        raise ConfigError(
            'HEADWAY in Django\'s settings must be a dict with keys in capitals: {"DATABASE": "default"}'
        )
    if taken := _TAKEN & set(given):
        raise ConfigError(
            f"HEADWAY[{min(taken)!r}] cannot be set: the database is in DATABASES; name its alias with "
            'HEADWAY = {"DATABASE": "default"}'
        )
    return {key.lower(): value for key, value in given.items()}


def _app() -> Headway:
    options = {"schema": DEFAULT_SCHEMA, **_options()}
    alias = options.pop("database", "default")
    try:
        app = Headway(**options)
    except TypeError as error:
        raise ConfigError(f"HEADWAY in Django's settings: {error}") from None
    session = session_of(app)
    session.find_dsn = lambda: dsn_of(alias)
    session.load_again = _InChild()
    session.hooks.add_middleware(around_attempt)
    session.hooks.add_middleware(around_plain)
    return app


def loaded() -> Headway:
    """Return the app where Django may not be set up yet, such as a child process."""
    if not apps.ready:
        importlib.import_module("django").setup()
    return hw


class _InChild:
    """Loads the app in a child process. A test's database has another name than the settings say."""

    def __call__(self) -> Headway:
        return loaded()

    def __reduce__(self) -> tuple[Any, ...]:
        databases: Any = connections.settings
        return _loader, ({alias: databases[alias]["NAME"] for alias in databases},)


def _loader(names: Mapping[str, Any]) -> Callable[[], Headway]:
    return functools.partial(_load_in_child, names)


def _load_in_child(names: Mapping[str, Any]) -> Headway:
    databases: Any = connections.settings
    for alias, name in names.items():
        databases[alias]["NAME"] = name
    return loaded()


def schema() -> str:
    """Return the name of Headway's schema, without asking about the database."""
    return str(_options().get("schema", DEFAULT_SCHEMA))


def database() -> str:
    """Return the alias of the database with the jobs."""
    return str(_options().get("database", "default"))


hw = _app()
