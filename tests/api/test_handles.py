"""`job.status()`: what is known of a job at one moment."""

import asyncio
from datetime import timedelta

import pytest

from headway import Context, Headway, Job, JobStatus, Retry
from headway.errors import JobNotFound
from tests.support import DEADLINE


@pytest.fixture
def gate(hw: Headway):
    """A task that waits inside its handler until the test opens the gate."""
    inside, opened = asyncio.Event(), asyncio.Event()

    @hw.task(retry=Retry(max_attempts=4))
    async def gate(ctx: Context, fail: bool = False) -> str:
        await ctx.progress(50, "half way")
        inside.set()
        await opened.wait()
        if fail:
            raise ValueError("the gate is broken") from KeyError("hinge")
        return "through"

    gate.inside, gate.opened = inside, opened
    return gate


async def test_a_job_that_waits(hw, gate) -> None:
    job = await gate.using(headers={"a": "b"}, priority=7, queue="doors").enqueue(fail=True)
    status = await job.status()
    assert isinstance(status, JobStatus)
    assert status == JobStatus(
        id=job.id,
        task="gate",
        queue="doors",
        step="",
        state="ready",
        priority=7,
        attempt=0,
        max_attempts=4,
        run_at=status.created_at,
        created_at=status.created_at,
        started_at=None,
        finished_at=None,
        expires_at=None,
        worker=None,
        input={"fail": True},
        result=None,
        error=None,
        headers={"a": "b"},
        progress=None,
        cancelling=False,
        keys=None,
        carried=None,
    )
    assert not status.finished
    assert status.created_at.utcoffset() is not None


async def test_a_job_that_runs(hw, gate, start) -> None:
    running = start()
    job = await gate.enqueue()
    await asyncio.wait_for(gate.inside.wait(), DEADLINE)
    status = await job.status()
    assert (status.state, status.attempt, status.worker) == ("running", 1, running.worker.id)
    assert status.started_at >= status.created_at
    assert status.finished_at is None
    gate.opened.set()


async def test_a_job_that_succeeded(hw, gate, start) -> None:
    running = start()
    gate.opened.set()
    job = await gate.enqueue()
    await job.result(timeout="60s")
    status = await job.status()
    assert (status.state, status.result, status.error) == ("succeeded", "through", None)
    assert (status.attempt, status.worker) == (1, running.worker.id)
    assert status.finished
    assert status.created_at <= status.started_at <= status.finished_at
    assert await job.attempts() == []


async def test_a_job_that_failed(hw, gate) -> None:
    gate.opened.set()
    job = await gate.using(retry=Retry(max_attempts=1)).enqueue(fail=True)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.result, status.attempt) == ("failed", None, 1)
    assert status.input == {"fail": True}
    assert status.error["type"] == "ValueError"
    assert status.error["message"] == "the gate is broken"
    assert status.error["chain"] == [{"type": "KeyError", "message": "'hinge'"}]
    assert 'raise ValueError("the gate is broken")' in status.error["traceback"]
    (attempt,) = await job.attempts()
    assert attempt.error == status.error
    assert (attempt.attempt, attempt.worker) == (1, status.worker)
    assert attempt.started_at == status.started_at


async def test_a_job_that_waits_for_its_next_attempt(hw, gate) -> None:
    gate.opened.set()
    retry = Retry(max_attempts=3, backoff="constant", base="1h", cap="1h", jitter=0)
    job = await gate.using(retry=retry).enqueue(fail=True)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt, status.worker) == ("scheduled", 1, None)
    assert status.started_at is None
    (attempt,) = await job.attempts()
    assert status.error == attempt.error
    (listed,) = await hw.jobs.list(state="scheduled")
    assert listed.error == attempt.error
    assert status.run_at - status.created_at >= timedelta(hours=1)
    assert status.progress is None


async def test_a_job_that_is_tried_anew_has_no_error(hw, gate) -> None:
    gate.opened.set()
    job = await gate.using(retry=1).enqueue(fail=True)
    await hw.run_until_idle()
    await job.retry()
    status = await job.status()
    assert (status.state, status.attempt, status.error) == ("ready", 0, None)


async def test_a_handle_from_an_id_is_as_good_as_the_first(hw, gate) -> None:
    job = await gate.enqueue()
    again = hw.job(str(job.id))
    assert again == job
    assert {job, again, hw.job(job.id)} == {job}
    assert await again.status() == await job.status()
    assert repr(again) == f"<Job {job.id}>"
    assert job != "something else"


async def test_a_handle_is_made_without_looking(hw) -> None:
    job = hw.job("0189aaaa-0000-7000-8000-000000000000")
    assert isinstance(job, Job)
    with pytest.raises(JobNotFound):
        await job.status()
