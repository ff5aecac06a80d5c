"""Underway's tests of the runs of a job, U73 to U77: cancelling, batches, options, ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from headway import Context, Headway, Next, Retry
from tests.reference.scenes import two_steps


async def test_u73_a_run_that_waits_is_cancelled_once(hw: Headway) -> None:
    """Underway: true and cancelled, then false; only while pending. Headway: the same, at any step."""
    flow = two_steps(hw)
    at_first, at_second = await flow.enqueue(number=1), await flow.enqueue(number=2)
    assert await at_first.cancel()
    assert not await at_first.cancel()
    await hw.run_until_idle(queues={"default": 1})
    assert await at_second.cancel()
    assert not await at_second.cancel()
    assert (await hw.run_until_idle()).total == 0
    ended = [await job.status() for job in (at_first, at_second)]
    assert [(status.state, status.step) for status in ended] == [
        ("cancelled", "first"),
        ("cancelled", "second"),
    ]


async def test_u74_many_runs_are_made_at_once(hw: Headway, db: psycopg.Connection[Any]) -> None:
    """Underway: two handles, their ids those of the rows. Headway: the same, in order."""
    jobs = await two_steps(hw).enqueue_many([{"number": 1}, {"number": 2}])
    rows = db.execute("select id, input from job order by seq").fetchall()
    assert rows == [(jobs[0].id, {"number": 1}), (jobs[1].id, {"number": 2})]


async def test_u75_the_options_of_a_step_land_in_the_row(hw: Headway) -> None:
    """Underway: seven options per step. Headway: these; a time to live is the job's, a heartbeat the
    worker's, and a timeout is read when the step runs."""
    flow = hw.flow("two", ttl="1d")
    deadlines: list[datetime | None] = []

    @flow.step
    async def first(ctx: Context) -> Next:
        deadlines.append(ctx.deadline)
        return second.next()

    @flow.step(
        retry=Retry(max_attempts=9), timeout="2h", delay="3h", priority=4, queue="own",
        concurrency_key="printer",
    )  # fmt: skip
    async def second(ctx: Context) -> None:
        deadlines.append(ctx.deadline)

    job = await flow.enqueue()
    before = datetime.now(UTC)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.max_attempts, status.priority) == ("scheduled", 9, 4)
    assert (status.queue, status.keys) == ("own", {"concurrency": "printer", "limit": 1})
    assert timedelta(hours=2) < status.run_at - before < timedelta(hours=4)
    assert status.expires_at == status.created_at + timedelta(days=1)
    await job.retry()
    await hw.run_until_idle()
    assert deadlines[0] is None
    assert deadlines[1] is not None
    assert deadlines[1] > before + timedelta(hours=1)


async def test_u76_a_run_does_not_change_where_the_next_one_starts(hw: Headway) -> None:
    """Underway: 0.2.0 starts it at the wrong step, main does not. Headway: nothing is shared by runs."""
    flow = two_steps(hw)
    await flow.enqueue(number=1)
    await hw.run_until_idle(queues={"default": 1})
    status = await (await flow.enqueue(number=2)).status()
    assert (status.step, status.queue, status.input) == ("first", "default", {"number": 2})
    await hw.run_until_idle()
    third = await flow.enqueue(number=3)
    await hw.run_until_idle()
    assert await third.result() == 40


async def test_u77_every_run_of_the_same_call_has_an_id_of_its_own(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: each dispatch of a schedule has a new id, its template none. Headway: the same for
    whatever is said again; the worker's declaration tells SQL where the flow starts."""
    two_steps(hw)
    await hw.run_until_idle()
    template = "select enqueue('two', '{\"number\": 3}')"
    ids = [db.execute(template).fetchone() for _ in range(2)]
    assert ids[0] != ids[1]
    assert db.execute("select step, queue from job").fetchall() == [("first", "default")] * 2
