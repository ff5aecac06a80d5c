"""connect.py, link.py and listen.py: connections that are the engine's own."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from psycopg.conninfo import conninfo_to_dict

from headway.errors import ConfigError, DatabaseError, DatabaseUnavailable, SchemaMismatch
from headway.store.connections import connect
from headway.store.connections.connect import Target, complete_dsn
from headway.store.connections.engine_connection import EngineConnection
from headway.store.connections.listen import Listener, SyncListener
from headway.store.statements import inspect, jobs
from tests.store.store import Store, new_job
from tests.support import eventually


def test_a_dsn_is_completed_where_it_is_silent() -> None:
    given = "postgresql://ada:secret@db.example:6432/app?keepalives_idle=99&application_name=shop"
    completed = conninfo_to_dict(complete_dsn(given))
    assert completed["host"] == "db.example"
    assert completed["keepalives_idle"] == "99"
    assert completed["application_name"] == "shop"
    assert completed["tcp_user_timeout"] == "10000", "a black-holed network is noticed in seconds"
    assert completed["connect_timeout"] == "5"
    assert completed["client_encoding"] == "UTF8"
    assert conninfo_to_dict(complete_dsn(complete_dsn(given))) == completed


@pytest.mark.parametrize("dsn", ["postgresql://[", "nonsense", "colour=red"])
def test_a_dsn_that_cannot_be_read_says_how_to_write_one(dsn: str) -> None:
    with pytest.raises(ConfigError, match="postgresql://user:password@host:5432/database"):
        complete_dsn(dsn)


def test_a_target_does_not_show_its_password() -> None:
    target = Target("host=h password=secret", "headway")
    assert "secret" not in repr(target)
    assert "application_name" in target.named("x").dsn


def test_without_notifications_there_are_no_channels() -> None:
    assert (Target("", "s").work_channel, Target("", "s").done_channel) == ("s_work", "s_done")
    quiet = Target("", "s", notify=False)
    assert (quiet.work_channel, quiet.done_channel) == (None, None)


async def test_a_connection_of_the_engines_states_what_it_relies_on(store: Store) -> None:
    async with await connect.connect(store.target) as conn:
        assert connect.is_direct(conn)
        for name, value in {
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            "enable_seqscan": "off",
            "jit": "off",
            "plan_cache_mode": "force_generic_plan",
            "statement_timeout": "30s",
            "lock_timeout": "10s",
            "idle_in_transaction_session_timeout": "1min",
            "search_path": "pg_catalog, pg_temp",
            "DateStyle": "ISO, MDY",
            "client_encoding": "UTF8",
        }.items():
            cursor = await conn.execute(f"show {name}")
            assert await cursor.fetchone() == (value,), name


async def test_a_link_has_its_statements_planned_once(store: Store) -> None:
    """A plan for each batch costs the server a fifth of a job (connect.py says why one suits all)."""
    link = EngineConnection(store.target)
    for _ in range(3):
        await link.run_all(jobs.lanes(["q"]), inspect.server())
    query = "select count(*) from pg_prepared_statements where generic_plans = 3"
    assert link._conn is not None
    assert await (await link._conn.execute(query)).fetchone() == (2,)
    await link.close()


async def test_a_link_sends_several_statements_as_one_transaction(store: Store) -> None:
    link = EngineConnection(store.target)
    good = jobs.enqueue(store.target, [new_job()], None)
    poison = jobs.enqueue(store.target, [new_job(priority=99_999)], None)
    with pytest.raises(DatabaseError):
        await link.run_all(good, poison)
    assert store.count("job") == 0
    made, lanes = await link.run_all(good, jobs.lanes(["q"]))
    assert (made, len(lanes.found)) == ({}, 1)
    await link.close()


async def test_a_link_says_that_its_connection_broke_and_makes_a_new_one(store: Store) -> None:
    link = EngineConnection(store.target.named("a link"))
    await link.run(inspect.server())
    assert store.terminate("a link") == 1
    with pytest.raises(DatabaseUnavailable):
        await link.run(inspect.server())
    assert not (await link.run(inspect.server())).in_recovery
    await link.close()


async def test_a_link_that_was_interrupted_starts_over(store: Store) -> None:
    """The fate of the statement is unknown: the next call must not read its answer."""
    link = EngineConnection(store.target.named("a link"))
    store.enqueue()
    with store.eyes.transaction():
        store.eyes.execute("lock table job")
        waiting = asyncio.create_task(link.run(jobs.lanes(["q"])))
        query = "select 1 from pg_locks where not granted and relation = 'job'::regclass"
        await eventually(lambda: store.rows(query))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert len((await link.run(jobs.lanes(["q"]))).found) == 1
    await link.close()


async def test_a_link_refuses_a_schema_that_does_not_fit(store: Store) -> None:
    link = EngineConnection(Target(store.dsn, "headway_missing"))
    with pytest.raises(SchemaMismatch):
        await link.verify()
    await link.close()


async def test_a_listener_hears_what_is_said_and_tells_when_its_connection_ends(
    store: Store,
) -> None:
    listener = Listener(store.target.named("a listener"), "hw_store_work")
    await listener.open()
    heard: list[str] = []

    async def listen() -> None:
        async with aclosing(listener.heard()) as payloads:
            async for payload in payloads:
                heard.append(payload)
                store.terminate("a listener")

    store.enqueue(queue="mail")
    with pytest.raises(DatabaseUnavailable):
        await listen()
    assert heard == ["ready 0 mail"]
    await listener.close()


def test_a_thread_hears_that_its_job_ended(store: Store, worker: int) -> None:
    claim = store.held(worker)
    with SyncListener(store.target, store.target.done_channel) as listener:
        store.rows("select pg_notify(%s, %s)", store.target.done_channel, "another")
        store.rows("select pg_notify(%s, %s)", store.target.done_channel, claim.id)
        listener.wait_sync(claim.id, 99, None)


def test_a_thread_that_cannot_listen_looks_now_and_then(store: Store) -> None:
    nowhere = Target("host=127.0.0.1 port=1 connect_timeout=1", store.schema)
    with SyncListener(nowhere, nowhere.done_channel) as listener:
        listener.wait_sync("any", 0, None)
