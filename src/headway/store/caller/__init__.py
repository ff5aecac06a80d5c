"""Statements on a connection that the caller opened, in a transaction that the caller ends.

There is a module per driver. Each recognises the driver's objects without importing it, so no driver is
required. The driver decides the types in rows, so a statement that runs here returns text and numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.errors import ConfigError
from headway.store.caller import asyncpg, django, psycopg, sqlalchemy
from headway.store.caller.connection import AsyncCallerConnection, CallerConnection
from headway.store.caller.errors import explained

__all__ = ["AsyncCallerConnection", "CallerConnection", "explained", "wrap", "wrap_async"]

_WRAPPERS: tuple[Callable[[Any], CallerConnection | None], ...] = (
    psycopg.wrap,
    asyncpg.wrap,
    sqlalchemy.wrap,
    django.wrap,
)
_ASYNC_WRAPPERS: tuple[Callable[[Any], AsyncCallerConnection | None], ...] = (
    psycopg.wrap_async,
    asyncpg.wrap_async,
    sqlalchemy.wrap_async,
    django.wrap_async,
)


def wrap(conn: Any) -> CallerConnection:
    """Return a wrapper of the caller's sync connection. Raise ConfigError if its type is unknown."""
    for wrapper in _WRAPPERS:
        if (wrapped := wrapper(conn)) is not None:
            return wrapped
    raise ConfigError(
        f"conn={conn!r} is not a supported connection; pass one of psycopg, SQLAlchemy or Django"
    )


def wrap_async(conn: Any) -> AsyncCallerConnection:
    """Return a wrapper of the caller's async connection. Raise ConfigError if its type is unknown."""
    for wrapper in _ASYNC_WRAPPERS:
        if (wrapped := wrapper(conn)) is not None:
            return wrapped
    raise ConfigError(
        f"conn={conn!r} is not a supported async connection; pass one of psycopg, asyncpg or SQLAlchemy"
    )
