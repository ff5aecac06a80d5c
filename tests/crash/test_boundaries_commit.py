"""G4: the reply to the COMMIT of a handler's transaction is lost. It was committed: once is enough."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Key
from headway.engine.jobs.settler import WorkerReport
from tests.crash.boundary import COMMIT
from tests.crash.count import assert_each_finished_once, unfinished
from tests.crash.proxy import Proxy
from tests.support import Running, eventually

KINDS = ["async", "thread"]
JOBS = 20


@pytest.fixture
async def far(proxy: Proxy, schema: str, db: psycopg.Connection[Any]) -> AsyncIterator[Headway]:
    """An app that reaches the database through the proxy, and a table for what its handlers do."""
    db.execute("create table effect (job_id uuid, attempt integer, step text)")
    app = Headway(proxy.dsn, schema=schema)
    yield app
    await app.close()


def paying(app: Headway, kind: str, then: Callable[[int], Any] = lambda n: n) -> Callable[..., Any]:
    """A handler that has an effect."""
    insert = f"insert into {app._session.target.schema}.effect values (%s, %s, %s)"

    async def on_the_loop(ctx: Context, n: int) -> Any:
        await ctx.conn.execute(insert, (ctx.job_id, ctx.attempt, ctx.step))
        return then(n)

    def in_a_thread(ctx: Context, n: int) -> Any:
        ctx.conn.execute(insert, (ctx.job_id, ctx.attempt, ctx.step))
        return then(n)

    return on_the_loop if kind == "async" else in_a_thread


async def _run(app: Headway, db: psycopg.Connection[Any]) -> WorkerReport:
    running = Running(app.worker(lease="60s"))
    await eventually(lambda: unfinished(db) == 0)
    return await running.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_g4_a_commit_without_a_reply_has_settled_the_job_and_done_its_work_once(
    far: Headway, db: psycopg.Connection[Any], proxy: Proxy, kind: str
) -> None:
    """Under keys, too: the room of a job whose end was not heard of is given to the next."""
    by_two = Key(lambda n: f"k{n % 2}", ordered=True)
    pay = far.task(name="pay", transaction=True, concurrency_key=by_two)(paying(far, kind))
    jobs = await pay.enqueue_many({"n": n} for n in range(JOBS))
    lost = proxy.lose_reply(COMMIT, times=5)
    report = await _run(far, db)
    assert lost.times == 0
    assert report.lost == 5, "what was settled without their knowing is found to be settled"
    assert_each_finished_once(db, jobs)
    assert db.execute("select distinct attempt, claim >> 32 from archive").fetchall() == [(1, 1)]
    assert db.execute("select count(*), count(distinct job_id) from effect").fetchone() == (
        JOBS,
        JOBS,
    )
    assert db.execute("select count(*) from attempt").fetchone() == (0,)


@pytest.mark.parametrize("kind", KINDS)
async def test_g5_a_commit_without_a_reply_has_moved_the_flow_on_once(
    far: Headway, db: psycopg.Connection[Any], proxy: Proxy, kind: str
) -> None:
    flow = far.flow("order", transaction=True)
    first = flow.step(name="first")(paying(far, kind, lambda n: second.next(n)))
    second = flow.step(name="second")(paying(far, kind))
    jobs = await flow.enqueue_many({"n": n} for n in range(JOBS))
    lost = proxy.lose_reply(COMMIT, times=7)
    report = await _run(far, db)
    assert lost.times == 0
    assert report.lost == 7
    assert_each_finished_once(db, jobs)
    for table in ("effect", "attempt where error is null"):
        done = db.execute(
            f"select step, count(*), count(distinct job_id), max(attempt) from {table} group by 1"
        ).fetchall()
        assert sorted(done) == [(first.name, JOBS, JOBS, 1), (second.name, JOBS, JOBS, 1)]
    assert db.execute("select count(*) from attempt where error is not null").fetchone() == (0,)
