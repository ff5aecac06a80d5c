"""Statements on a connection that the caller opened, in the transaction that the caller ends.

A module per driver: each knows its objects without importing the driver, so that none is needed.
Rows come as the driver reads them; a statement that is to run here returns text and numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.errors import ConfigError
from headway.store.borrowed import asyncpg, django, psycopg, sqlalchemy
from headway.store.borrowed.errors import explained
from headway.store.borrowed.lent import AsyncLent, Lent

__all__ = ["AsyncLent", "Lent", "explained", "lend", "lend_async"]

_LEND: tuple[Callable[[Any], Lent | None], ...] = (
    psycopg.lend,
    asyncpg.lend,
    sqlalchemy.lend,
    django.lend,
)
_LEND_ASYNC: tuple[Callable[[Any], AsyncLent | None], ...] = (
    psycopg.lend_async,
    asyncpg.lend_async,
    sqlalchemy.lend_async,
    django.lend_async,
)


def lend(conn: Any) -> Lent:
    """The caller's sync connection, of whatever kind."""
    for lend_one in _LEND:
        if (lent := lend_one(conn)) is not None:
            return lent
    raise ConfigError(
        f"conn={conn!r} is not a connection that can be borrowed; "
        "give one of psycopg, SQLAlchemy or Django"
    )


def lend_async(conn: Any) -> AsyncLent:
    """The caller's async connection, of whatever kind."""
    for lend_one in _LEND_ASYNC:
        if (lent := lend_one(conn)) is not None:
            return lent
    raise ConfigError(
        f"conn={conn!r} is not an async connection that can be borrowed; "
        "give one of psycopg, asyncpg or SQLAlchemy"
    )
