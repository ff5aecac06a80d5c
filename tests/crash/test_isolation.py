"""A database whose default isolation is serializable: Headway states its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from headway import Headway
from headway.core.verdict import Verdict
from headway.store.connections.connect import Target
from headway.store.rows import Claim
from headway.store.statement import Statement, text
from headway.store.statements import jobs
from headway.store.statements.jobs import Settled
from tests.crash.count import assert_each_finished_once, unfinished
from tests.crash.producers import producing
from tests.crash.proxy import Proxy, opening
from tests.crash.tasks import register
from tests.support import eventually


@pytest.fixture(autouse=True)
def _serializable(dsn: str) -> Iterator[None]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        name = sql.Identifier(conn.info.dbname)
        setting = sql.SQL("default_transaction_isolation")
        conn.execute(sql.SQL("alter database {} set {} = 'serializable'").format(name, setting))
        yield
        conn.execute(sql.SQL("alter database {} reset {}").format(name, setting))


@pytest.mark.slow
async def test_g3_workers_that_contend_on_a_serializable_database_finish_each_job_once(
    app: Headway, db: psycopg.Connection[Any], worker
) -> None:
    assert db.execute("show default_transaction_isolation").fetchone() == ("serializable",)
    workers = [worker(concurrency=50) for _ in range(3)]
    async with producing(app, 4) as producers:
        await eventually(lambda: len(producers.made) > 200)
    many = await app.tasks["pause"].enqueue_many({"n": 1_000_000 + n} for n in range(5_000))
    await eventually(lambda: unfinished(db) == 0)
    producers.made |= {1_000_000 + n: job.id for n, job in enumerate(many)}
    producers.assert_kept(db)
    assert producers.unsure == []
    assert not any("could not serialize" in each.output() for each in workers)


async def test_g3_a_repeated_enqueue_sees_a_job_that_ends_while_it_waits_for_it(
    app: Headway, db: psycopg.Connection[Any], proxy: Proxy, dsn: str, schema: str
) -> None:
    """The first enqueue was committed, its reply lost; the job is being settled when the second comes.
    That one waits for the settling, and must then see what it did."""
    far = register(Headway(proxy.dsn, schema=schema))
    target = Target(dsn, schema)
    lost = proxy.lose_reply(opening("writes/enqueue_one", schema), patient=True)
    enqueuing = asyncio.create_task(far.tasks["echo"].enqueue(1))
    await eventually(lost.answered.is_set)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("set default_transaction_isolation = 'read committed'")
        claim = _claim(conn, schema)
        with conn.transaction():
            _run(
                conn, schema, jobs.finish(target, [Settled(claim, Verdict("succeed", b"1"))], None)
            )
            proxy.release(lost)
            await eventually(lambda: _waits_for(db, conn.info.backend_pid))
    job = await enqueuing
    assert job.id == UUID(claim.id)
    assert_each_finished_once(db, [job])
    await far.close()


def _claim(conn: psycopg.Connection[Any], schema: str) -> Claim:
    conn.execute(
        sql.SQL("update {}.job set state = 'x', worker_id = 0, claim = 1, attempt = 1").format(
            sql.Identifier(schema)
        )
    )
    (claim,) = _run(conn, schema, jobs.orphans(0, [], 10))
    return claim


def _run(conn: psycopg.Connection[Any], schema: str, statement: Statement[Any]) -> Any:
    found = conn.execute(text(statement.name, schema), statement.params).fetchall()
    return statement.read(found)


def _waits_for(db: psycopg.Connection[Any], pid: int) -> bool:
    blocked = "select 1 from pg_stat_activity where %s = any (pg_blocking_pids(pid))"
    return db.execute(blocked, (pid,)).fetchone() is not None
