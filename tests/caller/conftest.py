"""An app with a task, a table of the caller's, and a transaction of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from headway import Headway, Task
from tests.borrowed.on_asyncpg import OnAsyncpg, OnAsyncpgPool, OnAsyncpgWithCodecs
from tests.borrowed.on_django import OnDjango
from tests.borrowed.on_sqlalchemy import (
    OnAsyncConnection,
    OnAsyncSession,
    OnConnection,
    OnScopedSession,
    OnSession,
)
from tests.borrowed.transactions import OnAsyncPsycopg, OnPsycopg, Transaction

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
def seen(db: psycopg.Connection[Any], schema: str) -> Callable[[], list[str]]:
    """What others see: the texts of the jobs, and `mine` for each row of the caller's own."""
    db.execute("create table work (text text)")

    def seen() -> list[str]:
        jobs = db.execute("select input->>'text' from jobs").fetchall()
        own = db.execute("select text from work").fetchall()
        return sorted(text for (text,) in (*jobs, *own))

    return seen
