"""G16: a worker with nothing but the worker's role does everything that workers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headway import Context, Headway, Key, Limit, Retry
from headway.errors import JobFailed
from tests.roles.stage import Stage
from tests.support import DEADLINE, eventually


@pytest.fixture
async def hw(stage: Stage) -> AsyncIterator[Headway]:
    app = Headway(stage.logins["worker"], schema=stage.schema)
    yield app
    await app.close()


async def test_tasks_keys_limits_retries_and_transactions(hw: Headway, stage: Stage) -> None:
    queue = stage.name()

    @hw.task(queue=queue, concurrency_key=Key("one", limit=1, ordered=True))
    async def keyed(n: int) -> int:
        return n

    @hw.task(queue=queue, limit=Limit(key=lambda n: str(n % 2), concurrency=1, rate="1000/s"))
    async def limited(n: int) -> int:
        return n

    @hw.task(queue=queue, transaction=True)
    async def committed(ctx: Context) -> str:
        cursor = await ctx.conn.execute("select current_user")  # type: ignore[attr-defined]
        return (await cursor.fetchone())[0]

    @hw.task(queue=queue, retry=Retry(max_attempts=1), dead_letter=f"{queue}_dead")
    def thread() -> None:
        raise ValueError("boom")

    jobs = [await keyed.enqueue(1), await limited.enqueue(2), await limited.enqueue(4)]
    transaction, failing = await committed.enqueue(), await thread.enqueue()
    await hw.run_until_idle()
    assert [await job.result(DEADLINE) for job in jobs] == [1, 2, 4]
    assert str(await transaction.result(DEADLINE)).endswith("_worker_login")
    with pytest.raises(JobFailed):
        await failing.result(DEADLINE)


async def test_a_flow_a_schedule_and_what_is_due_later(hw: Headway, stage: Stage) -> None:
    queue = stage.name()
    flow = hw.flow(stage.name(), queue=queue, schedule="@every 1s")

    @flow.step
    async def first() -> Any:
        return second.next()

    @flow.step
    async def second() -> str:
        return "there"

    later = await flow.using(delay=0.01).enqueue()
    worker = hw.worker(queues=[queue])
    running = asyncio.ensure_future(worker.run())
    try:
        assert await later.result(DEADLINE) == "there"
        fired = "select count(*) from archive where task = %s and headers ? 'schedule'"
        await eventually(lambda: stage.hand.value(fired, flow.name))
        assert stage.hand.value("select worker_id from leader") == worker.id, "it sweeps"
    finally:
        worker.stop()
        await running
        await hw.schedules.remove(flow.name)


async def test_the_job_of_a_process_that_died_runs_alone_in_a_child(
    hw: Headway, stage: Stage
) -> None:
    """A suspect uses the database with the role of its worker."""
    queue = stage.name()
    hw.task(_answer, name="answer", queue=queue)
    job = await hw.tasks["answer"].enqueue()
    stage.hand.rows("update job set crashes = 1 where id = %s", job.id)
    await hw.run_until_idle()
    assert await job.result(DEADLINE) == 42


def _answer() -> int:
    return 42
