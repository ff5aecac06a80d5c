"""Connections of Django: an alias, `django.db.connection`, or one of `connections`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

from psycopg.conninfo import make_conninfo

from headway.errors import ConfigError
from headway.store.caller.connection import CallerConnection, Params, failures, kinds, sync_only
from headway.store.connections.dsn import options
from headway.store.statement import Row


class Django:
    """A `DatabaseWrapper`."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def rows(self, sql: str, params: Params) -> list[Row]:
        with self._conn.cursor() as cursor:
            cursor.execute(sql, dict(params))
            rows: list[Row] = cursor.fetchall()
            return rows

    def count(self, sql: str, params: Params) -> int:
        with self._conn.cursor() as cursor:
            cursor.execute(sql, dict(params))
            return int(cursor.rowcount)

    def together(self) -> AbstractContextManager[Any]:
        if not self._conn.get_autocommit():
            return nullcontext()
        atomic: AbstractContextManager[Any] = import_module("django.db.transaction").atomic(
            using=self._conn.alias
        )
        return atomic


def wrap(conn: Any) -> CallerConnection | None:
    """Return a wrapper of a Django connection, or None if `conn` is not from Django."""
    if isinstance(conn, str):
        conn = _named(conn)
    if not _is_connection(conn):
        return None
    _check_vendor(conn)
    return Django(conn)


def dsn_of(alias: str) -> str:
    """Return the address of a database of Django's settings, as it is now: tests change its name."""
    conn = _named(alias)
    _check_vendor(conn)
    given = conn.get_connection_params()
    known = {key: given[key] for key in given.keys() & set(options()) if given[key] is not None}
    known.pop("client_encoding", None)  # the driver's own affair
    return make_conninfo(**known)


def _check_vendor(conn: Any) -> None:
    if conn.vendor != "postgresql":
        raise ConfigError(
            f"the Django connection {conn.alias!r} is not to PostgreSQL ({conn.vendor}); "
            "pass the alias of one that is"
        )


def wrap_async(conn: object) -> None:
    """Raise ConfigError for objects of Django: it has no async connections."""
    if isinstance(conn, str):
        _check_alias(conn)
    if isinstance(conn, str) or _is_connection(conn):
        raise sync_only(conn, ", from async code inside sync_to_async")


def _is_connection(conn: object) -> bool:
    # `django.db.connection` is a proxy. Other Django connections (caches) use the same proxy class and
    # have no vendor.
    wrappers = kinds("django.db.backends.base.base", "BaseDatabaseWrapper")
    proxies = kinds("django.utils.connection", "ConnectionProxy")
    return isinstance(conn, wrappers) or (isinstance(conn, proxies) and hasattr(conn, "vendor"))


def _check_alias(alias: str) -> None:
    if "=" in alias or "/" in alias:  # it may contain a password, so it is not repeated
        raise ConfigError(
            "conn is a DSN; pass an open connection, or the alias of a Django connection"
        )


def _named(alias: str) -> Any:
    _check_alias(alias)
    if "django" not in sys.modules:
        raise ConfigError(
            f"conn={alias!r} would be the alias of a Django connection, but this program does not use "
            "Django; pass an open connection"
        )
    try:
        return import_module("django.db").connections[alias]
    except failures("django.core.exceptions", "ImproperlyConfigured") as error:
        raise ConfigError(f"conn={alias!r} needs Django set up: {error}") from error
    except failures("django.utils.connection", "ConnectionDoesNotExist") as error:
        raise ConfigError(
            f"conn={alias!r} is not an alias in DATABASES of Django's settings; add it there"
        ) from error
