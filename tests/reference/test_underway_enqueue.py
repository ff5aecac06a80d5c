"""Underway's tests of enqueuing, U6 to U18: what the row holds of the task and of the call.

Underway copies every option of the task into each row. Headway's row holds what the database decides
by (queue, priority, moments, attempts) and what the call itself set; the rest is the task's, read
when it runs, so that a change of code reaches the jobs that wait.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Retry
from headway.errors import InvalidInput
from tests.store.store import NOW
from tests.support import eventually


async def test_u6_a_queue_is_there_once_something_is_in_it(hw: Headway) -> None:
    """Underway: a queue is built and inserted. Headway: it is a name, and exists by being used."""

    @hw.task
    async def work() -> None: ...

    assert await hw.queues.list() == []
    await work.using(queue="mail").enqueue()
    (queue,) = await hw.queues.list()
    assert (queue.name, queue.ready, queue.paused_at) == ("mail", 1, None)


async def test_u8_a_row_holds_its_input_and_the_defaults(hw: Headway) -> None:
    """Underway: input and defaults are in the row. Headway: the same."""

    @hw.task
    async def work(number: int, unit: str = "kg") -> None: ...

    status = await (await work.enqueue(3)).status()
    assert status.input == {"number": 3, "unit": "kg"}
    assert (status.task, status.queue, status.step) == ("work", "default", "")
    assert (status.state, status.priority) == ("ready", 0)
    assert (status.attempt, status.max_attempts) == (0, 5)
    assert status.run_at == status.created_at
    assert status.expires_at is None
    assert status.headers is None


async def test_u9_the_number_of_attempts_is_stored_and_a_calls_own_policy_too(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: the task's policy is copied to the row. Headway: its count; a call's policy whole."""

    @hw.task(retry=Retry(max_attempts=7, base="3s"))
    async def work() -> None: ...

    job = await work.enqueue()
    own = await work.using(retry=Retry(max_attempts=2, base="9s", jitter=0)).enqueue()
    assert (await job.status()).max_attempts == 7
    assert (await own.status()).max_attempts == 2
    assert _options(db, job.id) is None
    stored = {"backoff": "exponential", "base": 9, "cap": 60, "jitter": 0, "max_crashes": 3}
    assert _options(db, own.id) == {"retry": stored}


async def test_u10_a_calls_timeout_is_stored_and_the_tasks_is_read_when_it_runs(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: the task's timeout is copied to the row. Headway: a call's own is."""
    deadlines: dict[str, bool] = {}

    @hw.task(timeout="15m")
    async def work(ctx: Context, name: str) -> None:
        assert ctx.deadline is not None
        status = await hw.job(ctx.job_id).status()
        assert status.started_at is not None
        deadlines[name] = ctx.deadline - status.started_at > timedelta(minutes=10)

    task_s = await work.enqueue("the task's")
    own = await work.using(timeout="20s").enqueue("its own")
    assert _options(db, task_s.id) is None
    assert _options(db, own.id) == {"timeout": 20}
    await hw.run_until_idle()
    assert deadlines == {"the task's": True, "its own": False}


async def test_u11_a_time_to_live_is_stored_as_the_moment_it_ends(hw: Headway) -> None:
    """Underway: ttl is stored, and deletes the row. Headway: expires_at is, and the job expires."""

    @hw.task(ttl="14d")
    async def work() -> None: ...

    status = await (await work.enqueue()).status()
    assert status.expires_at == status.created_at + timedelta(days=14)
    own = await (await work.using(ttl=60).enqueue()).status()
    assert own.expires_at == own.created_at + timedelta(minutes=1)


async def test_u12_a_delay_is_stored_as_the_moment_to_run(hw: Headway) -> None:
    """Underway: the task's delay is stored. Headway: run_at is, by the call's delay."""

    @hw.task
    async def work() -> None: ...

    status = await (await work.using(delay="1h").enqueue()).status()
    assert status.state == "scheduled"
    assert status.run_at == status.created_at + timedelta(hours=1)


async def test_u13_the_lease_is_the_workers(
    hw: Headway, db: psycopg.Connection[Any], start: Any
) -> None:
    """Underway: a heartbeat per row. Headway: one per worker, in the worker's own row."""

    @hw.task
    async def work() -> None: ...

    start(lease="7s")
    query = "select expires_at - seen_at from worker"
    assert await eventually(lambda: db.execute(query).fetchone()) == (timedelta(seconds=7),)


async def test_u15_a_priority_is_stored(hw: Headway) -> None:
    """Underway: the task's priority is stored. Headway: the task's, or the call's."""

    @hw.task(priority=4)
    async def work() -> None: ...

    assert (await (await work.enqueue()).status()).priority == 4
    assert (await (await work.using(priority=-9).enqueue()).status()).priority == -9


async def test_u16_a_batch_has_its_delay_in_each_row(hw: Headway) -> None:
    """Underway: three rows with the delay, ids returned on main. Headway: handles in order."""

    @hw.task
    async def work(number: int) -> None: ...

    calls = [{"number": number} for number in range(3)]
    made = await work.using(delay="30m").enqueue_many(calls)
    statuses = [await job.status() for job in made]
    assert [status.input["number"] for status in statuses] == [0, 1, 2]
    assert {status.run_at - status.created_at for status in statuses} == {timedelta(minutes=30)}
    assert await work.enqueue_many([]) == []


async def test_u17_each_item_of_a_batch_may_have_options_of_its_own(hw: Headway) -> None:
    """Underway: per-input delay and priority, ids in order. Headway: the same, by `call`."""

    @hw.task
    async def work(number: int) -> None: ...

    made = await work.enqueue_many(
        [
            work.using(delay="1h", priority=1).call(0),
            {"number": 1},
            work.using(delay="2h", priority=3).call(number=2),
        ]
    )
    statuses = [await job.status() for job in made]
    assert [status.input["number"] for status in statuses] == [0, 1, 2]
    assert [status.priority for status in statuses] == [1, 0, 3]
    hours = [(status.run_at - status.created_at) / timedelta(hours=1) for status in statuses]
    assert hours == [1, 0, 2]


async def test_u17_one_bad_item_refuses_the_whole_batch(hw: Headway) -> None:
    """Underway: a batch is one transaction. Headway: it is refused whole, before the database."""

    @hw.task
    async def work(number: int) -> None: ...

    with pytest.raises(InvalidInput, match="item 1"):
        await work.enqueue_many([{"number": 1}, {"number": "two"}])
    assert await hw.queues.list() == []


async def test_u18_a_delay_given_at_the_call_counts_from_now(hw: Headway) -> None:
    """Underway: added to the task's delay. Headway: the call's is all there is."""

    @hw.task
    async def work() -> None: ...

    hw.session.clock.fixed = NOW
    status = await (await work.using(delay=timedelta(minutes=5)).enqueue()).status()
    assert (status.created_at, status.run_at) == (NOW, NOW + timedelta(minutes=5))


def _options(db: psycopg.Connection[Any], job_id: Any) -> Any:
    row = db.execute("select options from job where id = %s", (job_id,)).fetchone()
    assert row is not None
    return row[0]
