"""faults.py: which of the server's errors pass by themselves, which last, and in what words.

Every error here is one that a real server raised.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway import embedded
from headway.errors import DatabaseError, DatabaseUnavailable, HeadwayError, SchemaMismatch
from headway.store.connections.client import Client
from headway.store.connections.connect import Target, complete_dsn
from headway.store.faults import is_about_data, is_passing, translate
from headway.store.statements import inspect
from tests.support import eventually_sync

Conn = psycopg.Connection[Any]


def _raised(by: Callable[[], Any]) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as raised:
        by()
    return raised.value


@pytest.fixture
def conn(dsn: str) -> Iterator[Conn]:
    """On a schema with a table to go wrong with."""
    with psycopg.connect(dsn, autocommit=True) as maker:
        maker.execute("drop schema if exists faults cascade; create schema faults")
        maker.execute("create table faults.item (id integer primary key, name text)")
        maker.execute("insert into faults.item values (1, 'a'), (2, 'b')")
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("set search_path = faults")
            yield conn
        maker.execute("drop schema faults cascade")


@pytest.fixture
def other(dsn: str, conn: Conn) -> Iterator[Conn]:
    with psycopg.connect(dsn, autocommit=True) as another:
        another.execute("set search_path = faults")
        yield another


def _timeout(conn: Conn, other: Conn) -> None:
    conn.execute("set statement_timeout = 20")
    conn.execute("select pg_sleep(30)")


def _lock_timeout(conn: Conn, other: Conn) -> None:
    conn.execute("set lock_timeout = 20")
    with other.transaction():
        other.execute("lock table item")
        conn.execute("select * from item")


def _serialization(conn: Conn, other: Conn) -> None:
    with conn.transaction():
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select * from item")
        other.execute("update item set name = 'x' where id = 1")
        conn.execute("update item set name = 'y' where id = 1")


def _deadlock(conn: Conn, other: Conn) -> None:
    # Only ours looks for deadlocks in time: it is the one to be chosen.
    conn.execute("set deadlock_timeout = 20")
    other.execute("set deadlock_timeout = '60s'")
    with other.transaction(), conn.transaction():
        conn.execute("update item set name = 'x' where id = 1")
        other.execute("update item set name = 'x' where id = 2")
        crossing = threading.Thread(
            target=other.execute, args=["update item set name = 'x' where id = 1"]
        )
        crossing.start()
        stands = "select 1 from pg_locks where not granted and pid = %s"
        eventually_sync(lambda: conn.execute(stands, [other.info.backend_pid]).fetchone())
        conn.execute("update item set name = 'x' where id = 2")


def _became_a_standby(conn: Conn, other: Conn) -> None:
    conn.execute("set default_transaction_read_only = on")
    conn.execute("delete from item")


def _terminated(conn: Conn, other: Conn) -> None:
    other.execute("select pg_terminate_backend(%s)", [conn.info.backend_pid])
    conn.execute("select 1")


def _broken(conn: Conn, other: Conn) -> None:
    _raised(lambda: _terminated(conn, other))
    conn.execute("select 1")


def _pooler_moved_us(conn: Conn, other: Conn) -> None:
    conn.execute("execute prepared_elsewhere")


def _migrated_beside_us(conn: Conn, other: Conn) -> None:
    conn.execute("select * from item", prepare=True)
    other.execute("alter table item add column more text")
    conn.execute("select * from item", prepare=True)


def _behind_a_failure(conn: Conn, other: Conn) -> None:
    with conn.transaction():
        _raised(lambda: conn.execute("select 1 / 0"))
        conn.execute("select 1")


_PASSING = {
    "57014": _timeout,
    "55P03": _lock_timeout,
    "40001": _serialization,
    "40P01": _deadlock,
    "25006": _became_a_standby,
    "57P01": _terminated,
    None: _broken,
    "26000": _pooler_moved_us,
    "0A000": _migrated_beside_us,
    "25P02": _behind_a_failure,
}


@pytest.mark.parametrize("state", _PASSING, ids=lambda state: _PASSING[state].__name__[1:])
def test_what_passes_by_itself_is_tried_again(conn: Conn, other: Conn, state: str | None) -> None:
    error = _raised(lambda: _PASSING[state](conn, other))
    assert error.sqlstate == state
    assert is_passing(error)
    assert type(translate(error)) is DatabaseUnavailable
    assert not is_about_data(translate(error))


_MISFITS = {
    "no table": "select * from nowhere",
    "no column": "select nothing from item",
    "no function": "select nothing()",
    "no schema": "create table nowhere.item ()",
}


@pytest.mark.parametrize("query", _MISFITS.values(), ids=_MISFITS)
def test_a_name_that_is_missing_means_another_schema(conn: Conn, query: str) -> None:
    error = _raised(lambda: conn.execute(query))  # type: ignore[arg-type]
    assert not is_passing(error)
    told = translate(error)
    assert type(told) is SchemaMismatch
    assert "run `headway migrate`" in str(told)


_REFUSED_VALUES = {
    "22P05": """select '{"a": "\\u0000"}'::jsonb ->> 'a'""",
    "22P02": "select 'x'::integer",
    "22003": "select 100000::smallint",
    "23505": "insert into item values (1, 'twice')",
    "23502": "insert into item values (null, 'x')",
}


@pytest.mark.parametrize("state", _REFUSED_VALUES)
def test_values_that_the_server_refuses_are_told_apart(conn: Conn, state: str) -> None:
    """G8: a batch is taken apart for these, and only for these."""
    error = _raised(lambda: conn.execute(_REFUSED_VALUES[state]))  # type: ignore[arg-type]
    assert error.sqlstate == state
    assert not is_passing(error)
    told = translate(error)
    assert type(told) is DatabaseError
    assert told.sqlstate == state
    assert is_about_data(told)


def test_a_lack_of_rights_lasts_and_says_so(conn: Conn, other: Conn) -> None:
    role = sql.Identifier("headway_test_powerless")
    conn.execute("drop role if exists headway_test_powerless")
    conn.execute("create role headway_test_powerless")
    try:
        other.execute(sql.SQL("set role {}").format(role))
        error = _raised(lambda: other.execute("select * from pg_authid"))
    finally:
        conn.execute("drop role headway_test_powerless")
    told = translate(error)
    assert type(told) is DatabaseError
    assert (told.sqlstate, is_passing(error), is_about_data(told)) == ("42501", False, False)
    assert "permission denied" in str(told)


def test_a_headway_error_stays_what_it_is() -> None:
    error = HeadwayError("as it was")
    assert translate(error) is error


def _refused(dsn: str) -> HeadwayError:
    client = Client(Target(complete_dsn(dsn), "headway"))
    client.timeout = 0.2
    with pytest.raises(HeadwayError) as refused:
        client.run_sync(inspect.server())
    assert "\n" not in str(refused.value), "one line, for logs"
    return refused.value


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers on it
        refused = _refused(f"host=127.0.0.1 port={taken.getsockname()[1]} dbname=x user=x")
    assert type(refused) is DatabaseUnavailable
    assert "check that the server is up and the DSN is right" in str(refused)


async def test_the_same_for_async_callers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dsn = f"host=127.0.0.1 port={taken.getsockname()[1]} dbname=x user=x"
        client = Client(Target(complete_dsn(dsn), "headway"))
        client.timeout = 0.2
        with pytest.raises(DatabaseUnavailable):
            await client.run(inspect.server())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"user": "headway_nobody"}, 'role "headway_nobody" does not exist'),
        ({"dbname": "headway_nowhere"}, 'database "headway_nowhere" does not exist'),
    ],
)
def test_a_wrong_name_is_told_in_the_servers_words(
    dsn: str, wrong: dict[str, str], words: str
) -> None:
    refused = _refused(make_conninfo(dsn, **wrong))
    assert type(refused) is DatabaseError, "it is not tried again"
    assert words in str(refused)
    assert "check user, password and database of the DSN" in str(refused)


def test_a_wrong_password_is_told_in_the_servers_words() -> None:
    """On a server of its own, because the tests' one asks for no password."""
    with TemporaryDirectory(prefix="headway-hba-") as name:
        place = Path(name)
        place.chmod(0o755)
        rules = place / "hba.conf"
        rules.write_text("local all guest scram-sha-256\nlocal all all trust\n")
        rules.chmod(0o644)
        with embedded.start(place / "root", settings={"hba_file": str(rules)}) as server:
            with psycopg.connect(server.dsn, autocommit=True) as conn:
                conn.execute("create role guest login password 'right'")
            refused = _refused(make_conninfo(server.dsn, user="guest", password="mistyped"))
        eventually_sync(lambda: not (server.data / "postmaster.pid").exists())
    assert type(refused) is DatabaseError, "it is not tried again"
    assert "password authentication failed" in str(refused)
    assert "mistyped" not in str(refused), "the password itself is told to nobody"


def test_a_missing_schema_is_a_mismatch(dsn: str) -> None:
    client = Client(Target(complete_dsn(dsn), "headway_missing"))
    with pytest.raises(SchemaMismatch):
        client.run_sync(inspect.server())


def test_h6_a_dsn_of_several_hosts_fails_in_few_words() -> None:
    """Each host with its cause: five loops of a worker write them down again and again."""
    dsn = "host=127.0.0.1,127.0.0.1,127.0.0.1 port=1,2,3 dbname=x connect_timeout=2"
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(dsn)
    words = str(translate(refused.value))
    assert [f"127.0.0.1:{port} Connection refused" in words for port in (1, 2, 3)] == [True] * 3
    assert len(words) < 200


def test_h6_what_the_driver_says_without_a_server_is_cut_short() -> None:
    words = str(translate(psycopg.OperationalError("connection failed: " + "x" * 2000)))
    assert len(words) < 300


def test_h6_what_a_server_says_is_kept() -> None:
    said = psycopg.errors.UniqueViolation("x" * 2000)
    assert "x" * 2000 in str(translate(said))
