"""The session that frees room admits the next job. Nothing here waits for a poll, an hour away."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Key
from tests.support import DEADLINE, eventually

HOUR: dict[str, Any] = {"poll": "1h", "poll_alone": "1h"}


@pytest.fixture
def noted(db: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """The test's schema with a table for handlers to write to."""
    db.execute("create table noted (place bigint generated always as identity, n integer)")
    return db


@pytest.mark.parametrize("sync", [False, True], ids=["async", "thread"])
async def test_handlers_with_a_transaction_admit_the_next_job(
    hw: Headway, start, noted: psycopg.Connection[Any], schema: str, sync: bool
) -> None:
    insert = f"insert into {schema}.noted (n) values (%s)"

    async def note(ctx: Context, n: int) -> None:
        await ctx.conn.execute(insert, [n])

    def note_sync(ctx: Context, n: int) -> None:
        ctx.conn.execute(insert, [n])

    key = Key("line", ordered=True)
    task = hw.task(transaction=True, concurrency_key=key)(note_sync if sync else note)
    jobs = await task.enqueue_many({"n": n} for n in range(15))
    start(**HOUR)
    await jobs[-1].result(timeout=DEADLINE)
    assert noted.execute("select array_agg(n order by place) from noted").fetchone() == (
        list(range(15)),
    )


async def test_a_worker_that_stops_admits_under_the_key_of_its_last_handler(
    hw: Headway, start, noted: psycopg.Connection[Any], schema: str
) -> None:
    """The room of a transaction=True handler, freed while its worker drains."""
    began, gate = asyncio.Event(), asyncio.Event()

    @hw.task(transaction=True, concurrency_key="k")
    async def work(ctx: Context, n: int) -> None:
        began.set()
        await gate.wait()

    first, second = await work.enqueue_many([{"n": 0}, {"n": 1}])
    stopping = start(**HOUR, grace="30s")
    await asyncio.wait_for(began.wait(), DEADLINE)
    stopping.worker.stop()
    gate.set()
    await first.result(timeout=DEADLINE)
    await stopping.stop()
    row = noted.execute("select label(state), holds from job where id = %s", [second.id]).fetchone()
    assert row == ("ready", True)


@pytest.mark.parametrize("end", ["cancelled", "expired"])
@pytest.mark.parametrize("state", ["ready", "blocked"])
async def test_the_next_is_admitted_when_one_before_it_is_cancelled_or_expires(
    hw: Headway, start, db: psycopg.Connection[Any], state: str, end: str
) -> None:
    """A holder that was admitted and not claimed yet, or the first in line."""

    @hw.task(concurrency_key=Key("k", ordered=True))
    async def work() -> None: ...

    jobs = await work.using(queue="unserved").enqueue_many({} for _ in range(2))
    last = await work.enqueue()
    start(queues={"default": 1}, **HOUR)
    states = "select array_agg(label(state) order by seq) from job where queue = 'unserved'"
    await eventually(lambda: db.execute(states).fetchone() == (["blocked", "ready"],))
    holder, first_in_line = jobs
    leaves = [holder, first_in_line] if state == "ready" else [first_in_line, holder]
    for job in leaves:
        if end == "cancelled":
            assert await job.cancel()
        else:
            db.execute("update job set expires_at = now() where id = %s", [job.id])
            await eventually(lambda job=job: _ended(db, job) == "expired")
    await last.result(timeout=DEADLINE)
    assert [(await job.status()).state for job in jobs] == [end, end]


def _ended(db: psycopg.Connection[Any], job: Any) -> str | None:
    row = db.execute("select label(state) from archive where id = %s", [job.id]).fetchone()
    return None if row is None else row[0]
