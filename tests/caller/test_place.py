"""B3: a connection to another database is refused, and the job is not made there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headway import Headway, Task
from headway.errors import ConfigError
from headway.store import migrate
from tests.caller.conftest import KINDS
from tests.caller.transactions import Transaction

_OTHER = "headway_test_elsewhere"


@pytest.fixture(scope="module")
def elsewhere(server_dsn: str) -> Iterator[str]:
    """Another database of the same server."""
    name = sql.Identifier(_OTHER)
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        conn.execute(sql.SQL("create database {}").format(name))
        yield make_conninfo(server_dsn, dbname=_OTHER)
        conn.execute(sql.SQL("drop database if exists {} with (force)").format(name))


@pytest.mark.parametrize("kind", KINDS)
def test_b3_a_connection_to_another_database_is_refused_with_both_names(
    kind: str, elsewhere: str, dsn: str, schema: str, note: Task[Any, Any]
) -> None:
    """The schema is there, too: everything but the refusal would work."""
    migrate.run_sync(elsewhere, schema)
    tx = KINDS[kind](elsewhere)
    try:
        with pytest.raises(ConfigError) as found:
            tx.enqueue(note, "lost")
        with pytest.raises(ConfigError):
            tx.enqueue_many(note, [{"text": ""}])
        tx.execute("select 1")  # the transaction is the caller's to go on with
        tx.commit()
    finally:
        tx.close()
    assert f"'{_OTHER}'" in str(found.value)
    assert f"'{conninfo_to_dict(dsn)['dbname']}'" in str(found.value)
    with psycopg.connect(elsewhere) as conn:
        made = conn.execute(
            sql.SQL("select count(*) from {}.job").format(sql.Identifier(schema))
        ).fetchone()
    assert made == (0,)


def test_b3_a_producer_that_may_only_enqueue_gets_the_same_error(
    elsewhere: str, dsn: str, schema: str, db: psycopg.Connection[Any]
) -> None:
    """The comparison needs no rights."""
    name = sql.Identifier(f"{schema}_lone_producer")
    for place in (elsewhere, dsn):
        migrate.run_sync(place, schema, roles=True)
    db.execute(sql.SQL("create role {} login").format(name))
    db.execute(sql.SQL("grant {} to {}").format(sql.Identifier(f"{schema}_producer"), name))
    try:
        own = make_conninfo(dsn, user=f"{schema}_lone_producer")
        with Headway(own, schema=schema) as app, psycopg.connect(own) as right:

            @app.task(name="note")
            def note(text: str = "") -> None: ...

            assert note.using(conn=right).enqueue_sync("kept").created
            with (
                psycopg.connect(make_conninfo(elsewhere, user=f"{schema}_lone_producer")) as wrong,
                pytest.raises(ConfigError, match=_OTHER),
            ):
                note.using(conn=wrong).enqueue_sync("lost")
    finally:
        db.execute(sql.SQL("drop role {}").format(name))


def test_b3_the_app_asks_which_database_is_its_own_only_once(
    begin: Callable[[str], Transaction], note: Task[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = begin("psycopg")
    tx.enqueue(note, "first")
    client = note._session.client  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(client, "run_all_sync", None)
    tx.enqueue(note, "second")
    tx.commit()


def test_b3_a_schedule_is_not_put_into_another_database_either(
    elsewhere: str, dsn: str, schema: str, note: Task[Any, Any]
) -> None:
    migrate.run_sync(elsewhere, schema)
    with Headway(dsn, schema=schema) as app, psycopg.connect(elsewhere) as wrong:
        with pytest.raises(ConfigError, match=_OTHER):
            app.schedules.put_sync("nightly", note, "@daily", conn=wrong)
        with pytest.raises(ConfigError, match=_OTHER):
            app.schedules.remove_sync("nightly", conn=wrong)
