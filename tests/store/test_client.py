"""client.py: statements on our connections or the caller's, repeated only where that is safe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headway.errors import ConfigError, DatabaseError, DatabaseUnavailable
from headway.store.connections.client import Client
from headway.store.connections.connect import Target, complete_dsn
from headway.store.statements import inspect, jobs
from tests.store.store import Store, new_job


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    client = Client(Target(complete_dsn(store.dsn), store.schema))
    yield client
    client.close_sync()


def _poison(store: Store) -> Any:
    """A statement that the server refuses for a value in it."""
    return jobs.enqueue(store.target, [new_job(priority=99_999)], None)


def _good(store: Store) -> Any:
    return jobs.enqueue(store.target, [new_job()], None)


async def test_answers_come_in_order(store: Store, client: Client) -> None:
    statements = [_good(store), jobs.lanes(["q"]), inspect.jobs()]
    made, lanes, page = await client.run_all(statements)
    assert (made, len(lanes.found), len(page)) == ({}, 1, 1)
    made, lanes, page = client.run_all_sync([_good(store), jobs.lanes(["q"]), inspect.jobs()])
    assert (made, len(lanes.found), len(page)) == ({}, 1, 2)
    await client.close()


async def test_several_statements_are_one_transaction(store: Store, client: Client) -> None:
    with pytest.raises(DatabaseError):
        await client.run_all([_good(store), _poison(store)])
    with pytest.raises(DatabaseError):
        client.run_all_sync([_good(store), _poison(store)])
    assert store.count("job") == 0
    await client.close()


async def test_a_strict_default_of_the_database_is_not_ours(store: Store) -> None:
    """withdraw.sql takes back a repeated enqueue. It must see what committed while it waited."""
    strict = make_conninfo(store.dsn, options="-c default_transaction_isolation=serializable")
    client = Client(Target(complete_dsn(strict), store.schema))
    level = "show transaction_isolation"
    async with (await client.open()).connection() as conn, conn.transaction():
        assert await (await conn.execute(level)).fetchone() == ("read committed",)
    with client.open_sync().connection() as sync_conn, sync_conn.transaction():
        assert sync_conn.execute(level).fetchone() == ("read committed",)
    await client.close()
    client.close_sync()


async def test_g1_on_the_callers_connection_nothing_is_committed(
    store: Store, client: Client
) -> None:
    with psycopg.connect(store.dsn) as conn:
        client.run_in_sync(conn, lambda _: [_good(store), _good(store)])
        assert store.count("job") == 0
        conn.rollback()
        client.run_in_sync(conn, lambda _: [_good(store)])
        conn.commit()
    assert store.count("job") == 1
    async with await psycopg.AsyncConnection.connect(store.dsn) as own:
        await client.run_in(own, lambda _: [_good(store)])
        assert store.count("job") == 1
        await own.commit()
    assert store.count("job") == 2


async def test_on_the_callers_connection_nothing_is_repeated(store: Store, client: Client) -> None:
    with psycopg.connect(store.dsn) as conn:
        store.rows("select pg_terminate_backend(%s)", conn.info.backend_pid)
        with pytest.raises(psycopg.OperationalError):
            client.run_in_sync(conn, lambda _: [_good(store)])
    assert store.count("job") == 0


async def test_a_connection_of_the_wrong_kind_is_refused(store: Store, client: Client) -> None:
    with psycopg.connect(store.dsn) as conn:
        with pytest.raises(ConfigError, match="the call that ends in _sync"):
            await client.run_in(conn, lambda _: [_good(store)])
        with pytest.raises(ConfigError, match="not a supported connection"):
            client.run_in_sync(object(), lambda _: [_good(store)])
    async with await psycopg.AsyncConnection.connect(store.dsn) as own:
        with pytest.raises(ConfigError, match="await the call without _sync"):
            client.run_in_sync(own, lambda _: [_good(store)])


async def test_g3_a_connection_that_broke_is_replaced(store: Store) -> None:
    target = Target(complete_dsn(store.dsn), store.schema).named("to be ended")
    client = Client(target)
    await client.run(_good(store))
    client.run_sync(_good(store))
    assert store.terminate("to be ended") == 2
    await client.run(_good(store))
    client.run_sync(_good(store))
    assert store.count("job") == 4
    await client.close()
    client.close_sync()


async def test_g3_what_a_repetition_adds_is_sent_and_not_answered(store: Store) -> None:
    target = Target(complete_dsn(store.dsn), store.schema).named("to be repeated")
    client = Client(target)
    await client.run(_good(store))
    client.run_sync(_good(store))
    assert store.terminate("to be repeated") == 2
    extra = [_good(store)]
    assert await client.run_all([_good(store)], on_repeat=extra) == [{}]
    assert client.run_all_sync([_good(store)], on_repeat=[_good(store)]) == [{}]
    assert store.count("job") == 6, "each of the two was repeated, with what it adds"
    assert await client.run_all([_good(store)], on_repeat=[_good(store)]) == [{}]
    assert store.count("job") == 7, "and no repetition, nothing added"
    await client.close()
    client.close_sync()


async def test_a_refusal_is_not_repeated(store: Store, client: Client) -> None:
    before = store.one("select last_value from job_seq")["last_value"]
    with pytest.raises(DatabaseError) as refused:
        await client.run_all([_poison(store)], on_repeat=[_good(store)])
    assert not isinstance(refused.value, DatabaseUnavailable)
    assert refused.value.sqlstate == "22003"
    assert store.one("select last_value from job_seq")["last_value"] <= before + 1
    await client.close()
