"""`hw.jobs.retry_failed(...)`: what failed in one way is tried again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from headway import Fatal, Headway, Job
from headway.errors import ConfigError
from tests.failures.conftest import fail

Db = psycopg.Connection[Any]


async def _state(job: Job[Any]) -> str:
    return (await job.status()).state


async def _states(jobs: dict[str, Job[Any]]) -> dict[str, str]:
    return {why: await _state(job) for why, job in jobs.items()}


async def test_those_that_all_of_it_is_true_of_are_retried(hw: Headway, db: Db) -> None:
    jobs = {
        why: hw.job(fail(db, why, task))
        for task, why in [("mail", "no route"), ("mail", "no address"), ("report", "No Route (7)")]
    }
    assert await hw.jobs.retry_failed(task="mail", error="^failed: no route", since="1h") == 1
    assert await _states(jobs) == {
        "no route": "ready",
        "no address": "failed",
        "No Route (7)": "failed",
    }
    assert await hw.jobs.retry_failed(error=r"no route \(\d\)") == 1
    assert await _states(jobs) == {
        "no route": "ready",
        "no address": "failed",
        "No Route (7)": "ready",
    }


async def test_a_flow_is_chosen_by_the_step_where_it_failed_and_resumes_there(hw: Headway) -> None:
    mended = list[bool]()
    flow = hw.flow("order")

    @flow.step
    async def generate(order_id: int) -> Any:
        return email.next(key=f"receipt-{order_id}")

    @flow.step
    async def email(key: str) -> str:
        if not mended:
            raise Fatal("no such mailbox")
        return key

    jobs = [await flow.enqueue(order_id=number) for number in range(3)]
    await hw.run_until_idle()
    assert await hw.jobs.retry_failed(task="order", step="generate") == 0
    mended.append(True)
    assert await hw.jobs.retry_failed(task="order", step="email") == 3
    await hw.run_until_idle()
    results = [await job.result(timeout="60s") for job in jobs]
    assert results == ["receipt-0", "receipt-1", "receipt-2"]
    generated = [attempt for attempt in await jobs[0].history() if attempt.step == "generate"]
    assert len(generated) == 1, "the first step was not done again"


async def test_only_what_failed_since_a_moment_is_retried(hw: Headway, db: Db) -> None:
    old = fail(db)
    db.execute("update archive set finished_at = finished_at - interval '2 hours'")
    recent = fail(db)
    assert await hw.jobs.retry_failed(since="1h") == 1
    assert await _state(hw.job(recent)) == "ready"
    assert await hw.jobs.retry_failed(since=datetime.now(UTC) - timedelta(hours=3)) == 1
    assert await _state(hw.job(old)) == "ready"


async def test_the_oldest_come_first_where_there_is_a_limit(hw: Headway, db: Db) -> None:
    ids = [fail(db) for _ in range(4)]
    assert await hw.jobs.retry_failed(task="mail", limit=3) == 3
    states = [await _state(hw.job(job_id)) for job_id in ids]
    assert states == ["ready", "ready", "ready", "failed"]


def test_many_are_retried_from_sync_code_each_once(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:
        mended = list[bool]()

        @hw.task
        async def task(number: int) -> int:
            if not mended:
                raise Fatal("not yet")
            return number

        jobs = task.enqueue_many_sync([{"number": number} for number in range(250)])
        hw.run_until_idle_sync()
        mended.append(True)
        assert hw.jobs.retry_failed_sync(task="task") == 250
        assert hw.jobs.retry_failed_sync(task="task") == 0
        hw.run_until_idle_sync()
        assert [job.result_sync(timeout="60s") for job in jobs] == list(range(250))


@pytest.mark.parametrize(
    ("which", "complaint"),
    [
        ({}, "no failed jobs are chosen"),
        ({"limit": 5}, "no failed jobs are chosen"),
        ({"error": "no (route"}, r"error 'no \(route' is not a regular expression"),
        ({"since": "soon"}, "since 'soon' is not a duration"),
        ({"since": datetime(2040, 1, 1)}, "no time zone"),
        ({"task": "mail", "limit": 0}, "limit 0 must be at least 1"),
    ],
)
async def test_what_cannot_be_meant_retries_nothing(
    hw: Headway, db: Db, which: dict[str, Any], complaint: str
) -> None:
    fail(db)
    with pytest.raises(ConfigError, match=complaint):
        await hw.jobs.retry_failed(**which)
    assert db.execute("select count(*) from archive").fetchone() == (1,)
