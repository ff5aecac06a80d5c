"""`hw.jobs`: find, count, explain and retry jobs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway import Headway, Job, JobSummary
from headway.errors import ConfigError, InvalidInput, JobNotFound
from tests.failures.conftest import fail
from tests.support import eventually

Db = psycopg.Connection[Any]


@pytest.fixture
async def made(hw: Headway) -> list[Job[Any]]:
    """Three jobs of two tasks, in the order of their making."""

    @hw.task(queue="mail")
    async def welcome(n: int) -> None: ...

    @hw.task(queue="reports")
    async def report() -> None: ...

    return [
        await welcome.enqueue(1),
        await welcome.using(delay="1h").enqueue(2),
        await report.enqueue(),
    ]


async def test_get_is_the_status_of_the_job(hw: Headway, made: list[Job[Any]]) -> None:
    assert await hw.jobs.get(made[0].id) == await made[0].status()
    assert hw.jobs.get_sync(str(made[1].id)).input == {"n": 2}
    with pytest.raises(JobNotFound):
        await hw.jobs.get(UUID(int=1))
    with pytest.raises(ConfigError):
        await hw.jobs.get("nonsense")


async def test_a_job_is_enqueued_by_the_name_of_its_task(hw: Headway) -> None:
    @hw.task(queue="mail", priority=3)
    async def welcome(n: int) -> int:
        return n

    await hw.run_until_idle()  # a worker declares the task
    job = await hw.jobs.enqueue("welcome", {"n": 7}, unique="only", concurrency_key="ada")
    status = await job.status()
    assert (status.queue, status.priority, status.input) == ("mail", 3, {"n": 7})
    assert (await hw.jobs.enqueue("welcome", {"n": 8}, unique="only")).id == job.id
    assert hw.jobs.enqueue_sync("unknown").status_sync().queue == "default"
    await hw.run_until_idle()
    assert await job.result(timeout="60s") == 7


async def test_options_that_need_the_code_of_the_task_are_refused(hw: Headway) -> None:
    with pytest.raises(ConfigError):
        await hw.jobs.enqueue("welcome", timeout="1s")
    with pytest.raises(ConfigError):
        await hw.jobs.enqueue("welcome", unique=lambda n: str(n))
    with pytest.raises(InvalidInput):
        await hw.jobs.enqueue("welcome", [1])  # type: ignore[arg-type]
    assert await hw.jobs.count() == 0


async def test_one_id_where_a_list_belongs_is_refused(hw: Headway) -> None:
    for one in (UUID(int=1), str(UUID(int=1))):
        with pytest.raises(ConfigError):
            await hw.jobs.retry(one)  # type: ignore[arg-type]


async def test_a_list_is_newest_first_and_pages_go_back(hw: Headway, made: list[Job[Any]]) -> None:
    page = await hw.jobs.list(limit=2)
    assert all(type(job) is JobSummary for job in page)
    assert [job.id for job in page] == [made[2].id, made[1].id]
    rest = hw.jobs.list_sync(limit=2, before=page[-1].id)
    assert [job.id for job in rest] == [made[0].id]


async def test_lists_and_counts_take_the_same_choice(hw: Headway, made: list[Job[Any]]) -> None:
    for chosen, expected in (
        ({}, 3),
        ({"task": "welcome"}, 2),
        ({"queue": "mail", "state": "scheduled"}, 1),
        ({"state": ["ready", "scheduled"]}, 3),
        ({"state": []}, 0),
        ({"step": "x"}, 0),
    ):
        assert await hw.jobs.count(**chosen) == hw.jobs.count_sync(**chosen) == expected, chosen
        assert len(await hw.jobs.list(**chosen)) == expected, chosen


async def test_finished_jobs_are_counted_too(hw: Headway, db: Db, made: list[Job[Any]]) -> None:
    fail(db, "boom", "welcome")
    assert await hw.jobs.count(task="welcome") == 3
    assert await hw.jobs.count(task="welcome", state="failed") == 1


@pytest.mark.parametrize(
    "given", [{"state": "lost"}, {"state": ["ready", "lost"]}, {"limit": 0}, {"limit": True},
              {"task": 5}, {"before": "nonsense"}]
)  # fmt: skip
async def test_a_choice_that_cannot_be_right_is_refused(hw: Headway, given: Any) -> None:
    with pytest.raises(ConfigError):
        await hw.jobs.list(**given)


async def test_a_job_is_explained(hw: Headway, made: list[Job[Any]]) -> None:
    reasons = await hw.jobs.explain(made[1].id)
    assert reasons
    assert len(reasons) == len(await made[1].explain()) == len(made[1].explain_sync())
    with pytest.raises(JobNotFound):
        await hw.jobs.explain(UUID(int=1))


async def test_failed_is_what_retry_failed_retries(hw: Headway, db: Db) -> None:
    ids = [fail(db, why, "mail") for why in ("no route", "no address")]
    found = await hw.jobs.failed(task="mail", error="route")
    assert [(job.id, job.task, job.error_message) for job in found] == [
        (ids[0], "mail", "no route")
    ]
    assert await hw.jobs.retry_failed(task="mail", error="route") == 1
    assert await hw.jobs.failed(task="mail", error="route") == []


async def test_failures_are_the_newest_and_come_oldest_first(hw: Headway, db: Db) -> None:
    ids = [fail(db, str(n), "mail") for n in range(3)]
    found = await hw.jobs.failures(task="mail", since="1h", limit=2)
    assert [failure.job_id for failure in found] == ids[1:]
    assert await hw.jobs.failures(task="other") == []


async def test_named_jobs_are_retried_and_progress_is_reported(hw: Headway, db: Db) -> None:
    ids = [fail(db, "boom", "mail") for _ in range(150)]
    told = list[int]()
    assert await hw.jobs.retry([*ids, UUID(int=1)], on_progress=told.append) == 150
    assert told == [100, 151]
    assert hw.jobs.retry_sync(ids) == 0


async def test_jobs_of_tasks_that_no_worker_knows_are_counted(
    hw: Headway, made: list[Job[Any]]
) -> None:
    assert await hw.jobs.unserved() == {"report": 1, "welcome": 1}


async def test_the_fleet_at_one_moment(hw: Headway, made: list[Job[Any]], start: Any) -> None:
    running = start()
    await eventually(lambda: running.worker.id)
    (worker,) = await hw.workers.list()
    assert (worker.id, worker.alive, worker.draining) == (running.worker.id, True, False)
    assert await eventually(hw.workers.handlers) == {"report": "reports", "welcome": "mail"}
    await hw.queues.limit("slow", concurrency=1)
    seen = await hw.workers.overview()
    assert [each.id for each in seen.workers] == [worker.id]
    assert {"mail", "slow"} <= {queue.name for queue in seen.queues}
    assert [control.name for control in seen.controls] == ["slow"]
    assert (seen.unserved, seen.lock_waits) == ({}, [])
    assert seen.server.version == (await hw.server_info()).version
