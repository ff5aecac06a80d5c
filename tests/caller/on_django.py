"""Transactions of Django, and the settings it needs for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.conf import settings
from django.db import connection, connections, transaction

import django
from tests.caller.transactions import Transaction, server


@contextmanager
def configured(dsn: str) -> Iterator[None]:
    """Django as a program has it whose default database is the test's; nothing is left of it."""
    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    found = {key.upper(): value for key, value in server(dsn).items()}
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": found.pop("DATABASE"), **found}
    elsewhere = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    _use({"default": database, "elsewhere": elsewhere})
    try:
        yield
    finally:
        connections.close_all()
        _use({})


def _use(databases: dict[str, Any]) -> None:
    for known in list(connections.all(initialized_only=True)):
        del connections[known.alias]
    connections.settings = connections.configure_settings(databases)


class OnDjango(Transaction):
    """`conn` is the alias, the proxy that programs import, or the connection itself."""

    library = "django"

    def __init__(self, dsn: str, given: str) -> None:
        self._left = ExitStack()
        self._left.enter_context(configured(dsn))
        whole = connections["default"]
        self.conn = {"alias": "default", "proxy": connection, "object": whole}[given]
        self._atomic = transaction.atomic()
        self._atomic.__enter__()

    def execute(self, sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    def savepoint(self) -> None:
        self._savepoint = transaction.atomic()
        self._savepoint.__enter__()

    def rollback_to_savepoint(self) -> None:
        transaction.set_rollback(True)
        self._savepoint.__exit__(None, None, None)

    def commit(self) -> None:
        self._atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        transaction.set_rollback(True)
        self._atomic.__exit__(None, None, None)

    def close(self) -> None:
        self._left.close()
