"""Connections of Django: by their alias, as `django.db.connection`, or one of `connections`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

from headway.errors import ConfigError
from headway.store.borrowed.lent import Lent, Params, failures, kinds, sync_only
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

    def together(self) -> AbstractContextManager[Any]:
        if not self._conn.get_autocommit():
            return nullcontext()
        atomic: AbstractContextManager[Any] = import_module("django.db.transaction").atomic(
            using=self._conn.alias
        )
        return atomic


def lend(conn: Any) -> Lent | None:
    """A connection of Django; none if `conn` has nothing to do with it."""
    if isinstance(conn, str):
        conn = _named(conn)
    if not _is_connection(conn):
        return None
    if conn.vendor != "postgresql":
        raise ConfigError(
            f"the Django connection {conn.alias!r} is to no PostgreSQL ({conn.vendor}); "
            "give the alias of one that is"
        )
    return Django(conn)


def lend_async(conn: object) -> None:
    """Refuses what is Django's: it has no async connections."""
    if isinstance(conn, str):
        _check_alias(conn)
    if isinstance(conn, str) or _is_connection(conn):
        raise sync_only(conn, " (from async code inside sync_to_async: Django's are all sync)")


def _is_connection(conn: object) -> bool:
    # `django.db.connection` is a proxy of its own; it also stands for other handlers' connections
    # (caches), which have no vendor.
    wrappers = kinds("django.db.backends.base.base", "BaseDatabaseWrapper")
    proxies = kinds("django.utils.connection", "ConnectionProxy")
    return isinstance(conn, wrappers) or (isinstance(conn, proxies) and hasattr(conn, "vendor"))


def _check_alias(alias: str) -> None:
    if "=" in alias or "/" in alias:  # it may hold a password: it is not repeated
        raise ConfigError("conn is a DSN; give an open connection, or the alias of Django's")


def _named(alias: str) -> Any:
    _check_alias(alias)
    if "django" not in sys.modules:
        raise ConfigError(
            f"conn={alias!r} names a connection of Django, which this program does not use; "
            "give an open connection"
        )
    try:
        return import_module("django.db").connections[alias]
    except failures("django.core.exceptions", "ImproperlyConfigured") as error:
        raise ConfigError(f"conn={alias!r} needs Django set up: {error}") from error
    except failures("django.utils.connection", "ConnectionDoesNotExist") as error:
        raise ConfigError(
            f"conn={alias!r} is no alias in the DATABASES of Django's settings"
        ) from error
