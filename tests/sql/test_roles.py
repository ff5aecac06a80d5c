"""Roles: made only when asked for, and what each of them may do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway import Headway, HeadwayError
from headway.store import migrate
from tests.sql.hand import TABLES, Hand
from tests.support import DEADLINE

KINDS = ("producer", "worker", "reader", "operator")
DENIED = psycopg.errors.InsufficientPrivilege


def _roles(conn: psycopg.Connection[Any], schema: str) -> set[str]:
    query = "select rolname from pg_roles where rolname = any (%s)"
    names = [f"{schema}_{kind}" for kind in KINDS]
    return {row[0] for row in conn.execute(query, (names,)).fetchall()}


@pytest.fixture(scope="module")
def fresh(dsn: str) -> Iterator[str]:
    """The name of a schema, and of roles, of this process alone: roles belong to the whole cluster."""
    name = f"hw_roles_{os.getpid()}"
    yield name
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))
        for role in _roles(conn, name):
            conn.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
            conn.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.fixture(scope="module")
def granted(dsn: str, fresh: str) -> str:
    """A schema with its roles."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        migrate.run_sync(dsn, fresh)
        assert _roles(conn, fresh) == set(), "none is made unasked"
        assert migrate.run_sync(dsn, fresh, roles=True) == ["roles"]
        assert len(_roles(conn, fresh)) == 4
        assert migrate.run_sync(dsn, fresh) == []
    return fresh


@pytest.fixture
def acting(dsn: str, granted: str) -> Iterator[Callable[[str], Hand]]:
    """Gives a connection that is one of the roles."""
    opened: list[Hand] = []

    def act(kind: str) -> Hand:
        role = f"{granted}_{kind}"
        opened.append(Hand(make_conninfo(dsn, options=f"-c role={role}"), granted))
        assert opened[-1].value("select current_user") == role
        return opened[-1]

    yield act
    for hand in opened:
        hand.close()


def test_a_producer_makes_jobs_and_reads_nothing(acting: Callable[[str], Hand]) -> None:
    producer = acting("producer")
    made = producer.enqueue("greet", {"secret": 1}, queue="p", unique_key="u")
    assert producer.enqueue(queue="p", unique_key="u") == made
    assert producer.value("insert into inbox (task, queue) values ('greet', 'p') returning id")
    producer.rows("""select enqueue_many('[{"task": "greet", "queue": "p"}]')""")
    for name in (*TABLES, "jobs", "queues"):
        with pytest.raises(DENIED):
            producer.rows(f"select * from {name}")
    for call in ("retry", "cancel", "explain"):
        with pytest.raises(DENIED):
            producer.call(call, made)
    with pytest.raises(DENIED):
        producer.claim("p")
    assert acting("reader").value("select count(*) from jobs where queue = 'p'") == 3


def test_a_reader_looks_and_changes_nothing(acting: Callable[[str], Hand]) -> None:
    reader = acting("reader")
    made = acting("producer").enqueue("greet", queue="r")
    assert reader.value("select state from jobs where id = %s", made) == "ready"
    assert "r" in [row["queue"] for row in reader.rows("select queue from queues")]
    assert reader.call("explain", made)
    for call in ("retry", "cancel"):
        with pytest.raises(DENIED):
            reader.call(call, made)
    with pytest.raises(DENIED):
        reader.enqueue()


def test_an_operator_looks_after_jobs_without_a_right_to_the_tables(
    acting: Callable[[str], Hand],
) -> None:
    operator = acting("operator")
    made = acting("producer").enqueue("greet", queue="o")
    assert operator.call("edit", made, {"n": 2}) is True
    assert operator.call("cancel", made) is True
    assert operator.call("retry", made) is True
    assert operator.call("pause", "o", "deploy") is True
    assert operator.value("select paused_by from queues where queue = 'o'").endswith("_operator")
    assert "is paused by" in operator.call("explain", made)
    assert operator.call("resume", "o") is True
    assert operator.value("select input from jobs where id = %s", made) == {"n": 2}
    with pytest.raises(DENIED):
        operator.claim("o")
    with pytest.raises(DENIED):
        operator.rows("delete from job")


def test_a_worker_claims_settles_and_prunes(acting: Callable[[str], Hand]) -> None:
    worker = acting("worker")
    worker.enqueue("greet", queue="w", concurrency_key="k")
    worker.rows("select sweep()")
    (claimed,) = worker.claim("w")
    assert worker.settle("extend", claimed, "1 hour") is True
    assert worker.settle("complete", claimed) is True
    worker.rows("select prune()")
    worker.rows("select add_partitions(now() + interval '300 days', 0)")
    with pytest.raises(DENIED):
        worker.rows("update migration set version = 9")
    with pytest.raises(DENIED):
        worker.rows("select grant_rights(true)")
    with pytest.raises(DENIED):
        worker.rows("create table mine (id int)")


async def test_python_enqueues_as_a_producer_and_runs_as_a_worker(dsn: str, granted: str) -> None:
    def app(kind: str) -> Headway:
        return Headway(make_conninfo(dsn, options=f"-c role={granted}_{kind}"), schema=granted)

    producing, working = app("producer"), app("worker")
    for hw in (producing, working):

        @hw.task(name="add", queue="python")
        async def add(a: int, b: int) -> int:
            return a + b

    try:
        job = await producing.tasks["add"].enqueue(1, 2)
        with pytest.raises(HeadwayError, match="permission denied"):
            await job.status()
        await working.run_until_idle()
        assert await working.job(job.id).result(timeout=DEADLINE) == 3
    finally:
        await producing.close()
        await working.close()


def test_functions_that_act_with_the_owners_rights_are_safe_to_call(hand: Hand) -> None:
    found = hand.rows(
        "select proname as name, proconfig as config, "
        "  exists (select 1 from aclexplode(proacl) where grantee = 0) as public "
        "from pg_proc where pronamespace = %s::regnamespace and prosecdef",
        hand.schema,
    )
    assert {"enqueue", "retry", "explain", "add_partitions"} <= {row["name"] for row in found}
    for row in found:
        assert row["config"] == ["search_path=pg_catalog, pg_temp"], row["name"]
        assert row["public"] is False, row["name"]


def test_nothing_but_what_is_pure_is_left_to_everyone(hand: Hand) -> None:
    found = hand.rows(
        "select proname as name from pg_proc where pronamespace = %s::regnamespace "
        "and (proacl is null or exists (select 1 from aclexplode(proacl) where grantee = 0))",
        hand.schema,
    )
    assert {row["name"] for row in found} == {"label", "keys_of", "in_words"}


def test_what_is_made_anew_has_its_rights_again(dsn: str, granted: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop function {}.resume").format(sql.Identifier(granted)))
        conn.execute(
            sql.SQL("delete from {}.definition where name = '6_operators'").format(
                sql.Identifier(granted)
            )
        )
        assert migrate.run_sync(dsn, granted) == ["6_operators"]
        allowed = "select has_function_privilege(%s, %s, 'execute')"
        for kind, expected in (("operator", True), ("worker", True), ("producer", False)):
            given = (f"{granted}_{kind}", f"{granted}.resume(text,text,text)")
            assert conn.execute(allowed, given).fetchone() == (expected,)


def test_the_printed_script_makes_roles_only_if_asked_to() -> None:
    assert "grant_rights(false);" in migrate.script("headway")
    assert "grant_rights(true);" in migrate.script("headway", roles=True)
