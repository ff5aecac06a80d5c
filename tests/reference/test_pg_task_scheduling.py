"""pg_task's tests of scheduling, P1 to P8, P11 and P12: what an enqueue stores, and when it does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway, Retry
from headway.errors import DatabaseError, DatabaseUnavailable, InvalidInput, JobNotFound
from tests.reference.scenes import NOWHERE
from tests.store.store import NOW


async def test_p1_a_job_is_stored_with_its_input_and_exact_moment(hw: Headway) -> None:
    """pg_task: step and exact time are in the row. Headway: input and run_at are."""

    @hw.task
    async def greet(name: str) -> None: ...

    moment = datetime(2040, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)
    status = await (await greet.using(at=moment).enqueue("Ada")).status()
    assert (status.input, status.run_at, status.state) == ({"name": "Ada"}, moment, "scheduled")


async def test_p2_a_delay_counts_from_now(hw: Headway) -> None:
    """pg_task: wakeup_at is now plus the delay. Headway: run_at is, by the database's clock."""
    status = await (await _greet(hw).using(delay="90s").enqueue("Ada")).status()
    assert status.run_at - status.created_at == timedelta(seconds=90)


@pytest.mark.parametrize("delay", [0, "0s", timedelta(0)])
async def test_p3_no_delay_is_now(hw: Headway, delay: Any) -> None:
    """pg_task: a zero delay is now. Headway: the job is ready at once."""
    status = await (await _greet(hw).using(delay=delay).enqueue("Ada")).status()
    assert (status.state, status.run_at) == ("ready", status.created_at)


async def test_p4_an_enqueued_job_is_due_now(hw: Headway, db: psycopg.Connection[Any]) -> None:
    """pg_task: wakeup_at is now. Headway: run_at is the database's now; the job is ready."""
    before = db.execute("select clock_timestamp()").fetchone()
    status = await (await _greet(hw).enqueue("Ada")).status()
    after = db.execute("select clock_timestamp()").fetchone()
    assert before is not None
    assert after is not None
    assert before[0] <= status.run_at <= after[0]
    assert status.state == "ready"


async def test_p5_a_job_can_be_made_in_a_transaction(hw: Headway, dsn: str) -> None:
    """pg_task: any executor, a transaction too. Headway: `conn`; it exists once that commits (G1)."""
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        job = await _greet(hw).using(conn=conn).enqueue("Ada")
        with pytest.raises(JobNotFound):
            await job.status()
        await conn.commit()
    assert (await job.status()).state == "ready"


async def test_p6_a_transaction_rolled_back_leaves_nothing(hw: Headway, dsn: str) -> None:
    """pg_task: nothing is left. Headway: the same, for one and for many (G1)."""
    greet = _greet(hw)
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await greet.using(conn=conn).enqueue("Ada")
        await greet.using(conn=conn).enqueue_many([{"name": "Grace"}, {"name": "Mary"}])
        await conn.rollback()
    with psycopg.connect(dsn) as sync_conn:
        greet.using(conn=sync_conn).enqueue_sync("Ada")
        sync_conn.rollback()
    assert await hw.queues.list() == []


async def test_p7_what_cannot_be_stored_is_refused_before_the_database_is_touched() -> None:
    """pg_task: a serialisation error comes first. Headway: InvalidInput does, with no server at all."""
    app = Headway(NOWHERE)
    app.session.patience = 0.5

    @app.task
    async def keep(value: Any) -> None: ...

    with pytest.raises(InvalidInput, match="cannot be stored as JSON"):
        await keep.enqueue(object())
    with pytest.raises(InvalidInput, match="NUL"):
        keep.enqueue_sync("a\0b")
    with pytest.raises(DatabaseUnavailable):
        await keep.enqueue("fine")


async def test_p8_a_refused_insert_is_an_error_and_makes_nothing(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """pg_task: AddTask. Headway: DatabaseError, with the server's code and words."""
    db.execute("alter table job add constraint no_ada check (input ->> 'name' <> 'Ada')")
    greet = _greet(hw)
    with pytest.raises(DatabaseError, match="no_ada") as refused:
        await greet.enqueue("Ada")
    assert refused.value.sqlstate == "23514"
    with pytest.raises(DatabaseError, match="no_ada"):
        await greet.enqueue_many([{"name": "Grace"}, {"name": "Ada"}])
    assert await hw.queues.list() == []


async def test_p10_every_task_of_an_app_is_known_to_its_workers(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """pg_task: the macro implements the trait for all tasks. Headway: a worker registers them all."""
    _greet(hw)

    @hw.task(name="say goodbye")
    def goodbye() -> None: ...

    await hw.run_until_idle()
    row = db.execute("select tasks from worker").fetchone()
    assert row == (["greet", "say goodbye"],)


async def test_p11_the_stored_job_names_its_task(hw: Headway) -> None:
    """pg_task: the step is stored inside its task. Headway: task and input are columns."""

    @hw.task(name="mail.greet")
    async def greet(name: str) -> None: ...

    status = await (await greet.enqueue("Ada")).status()
    assert (status.task, status.input) == ("mail.greet", {"name": "Ada"})


async def test_p12_a_tasks_own_limit_and_delay_are_those_of_its_jobs(hw: Headway) -> None:
    """pg_task: RETRY_LIMIT and RETRY_DELAY are forwarded. Headway: the policy of the task holds."""

    @hw.task(retry=Retry(max_attempts=2, backoff="constant", base="1h", cap="1h", jitter=0))
    async def patient() -> None:
        raise RuntimeError("not yet")

    @hw.task(retry=Retry(max_attempts=1))
    async def impatient() -> None:
        raise RuntimeError("never")

    hw.session.clock.fixed = NOW
    waits, fails = await patient.enqueue(), await impatient.enqueue()
    await hw.run_until_idle()
    status = await waits.status()
    assert (status.state, status.max_attempts) == ("scheduled", 2)
    assert status.run_at == NOW + timedelta(hours=1)
    assert (await fails.status()).state == "failed"


def _greet(hw: Headway) -> Any:
    @hw.task
    async def greet(name: str) -> None: ...

    return greet
