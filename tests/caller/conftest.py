"""An app with a task, a table of the caller's, and a transaction of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from headway import Headway, Task
from tests.caller.on_asyncpg import OnAsyncpg, OnAsyncpgPool, OnAsyncpgWithCodecs
from tests.caller.on_django import OnDjango
from tests.caller.on_sqlalchemy import (
    OnAsyncConnection,
    OnAsyncSession,
    OnConnection,
    OnScopedSession,
    OnSession,
)
from tests.caller.transactions import OnAsyncPsycopg, OnPsycopg, Transaction

KINDS: dict[str, Callable[[str], Transaction]] = {
    "psycopg": OnPsycopg,
    "psycopg-async": OnAsyncPsycopg,
    "asyncpg": OnAsyncpg,
    "asyncpg-codecs": OnAsyncpgWithCodecs,
    "asyncpg-pool": OnAsyncpgPool,
    "sqlalchemy-connection-psycopg": partial(OnConnection, driver="psycopg"),
    "sqlalchemy-connection-psycopg2": partial(OnConnection, driver="psycopg2"),
    "sqlalchemy-session-psycopg": partial(OnSession, driver="psycopg"),
    "sqlalchemy-session-psycopg2": partial(OnSession, driver="psycopg2"),
    "sqlalchemy-scoped": partial(OnScopedSession, driver="psycopg"),
    "sqlalchemy-async-connection-psycopg": partial(OnAsyncConnection, driver="psycopg"),
    "sqlalchemy-async-connection-asyncpg": partial(OnAsyncConnection, driver="asyncpg"),
    "sqlalchemy-async-session-psycopg": partial(OnAsyncSession, driver="psycopg"),
    "sqlalchemy-async-session-asyncpg": partial(OnAsyncSession, driver="asyncpg"),
    "django-alias": partial(OnDjango, given="alias"),
    "django-proxy": partial(OnDjango, given="proxy"),
    "django-object": partial(OnDjango, given="object"),
}


@pytest.fixture
def note(dsn: str, schema: str) -> Iterator[Task[Any, Any]]:
    """A task of an app on the test's schema."""
    with Headway(dsn, schema=schema) as app:

        @app.task(name="note")
        def note(text: str = "") -> None: ...

        yield note


@pytest.fixture
def begin(dsn: str, schema: str) -> Iterator[Callable[[str], Transaction]]:
    """Begins a transaction of a kind; whatever became of it, it ends before its schema is dropped."""
    begun: list[Transaction] = []

    def begin(kind: str) -> Transaction:
        begun.append(KINDS[kind](dsn))
        return begun[-1]

    yield begin
    for transaction in begun:
        transaction.close()


@pytest.fixture(params=list(KINDS))
def tx(request: pytest.FixtureRequest, begin: Callable[[str], Transaction]) -> Transaction:
    """A transaction of every kind, in which nothing was said yet."""
    return begin(request.param)


@pytest.fixture
def work_table(db: psycopg.Connection[Any]) -> str:
    """An empty table of the caller's, in a schema of its own: that of Headway is left as it is."""
    db.execute("create schema if not exists callers")
    db.execute("create table if not exists callers.work (text text)")
    db.execute("truncate callers.work")
    return "callers.work"


@pytest.fixture
def seen(db: psycopg.Connection[Any], work_table: str) -> Callable[[], list[str]]:
    """Return what other sessions see: the texts of the jobs, and of the rows in the caller's table."""

    def seen() -> list[str]:
        jobs = db.execute("select input->>'text' from jobs").fetchall()
        own = db.execute("select text from callers.work").fetchall()
        return sorted(text for (text,) in (*jobs, *own))

    return seen
