"""How long a job is kept: by its task, its flow, its app."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from headway import Fatal, Headway, Job, Retention
from headway.errors import ConfigError, JobNotFound
from tests.crash.proxy import Proxy, opening
from tests.endings.conftest import Crash, Db, kept_for
from tests.sql.hand import Hand
from tests.support import eventually

DAY = timedelta(days=1)


def _task(hw: Headway, name: str, **options: Any) -> Any:
    @hw.task(name=name, **options)
    async def task(fails: bool) -> str:
        if fails:
            raise Fatal("no")
        return "yes"

    return task


async def _ends(hw: Headway, db: Db, task: Any) -> tuple[timedelta | None, timedelta | None]:
    """How long a success and a failure of a task are kept."""
    done, failed = await task.enqueue(fails=False), await task.enqueue(fails=True)
    await hw.run_until_idle()
    return kept_for(db, done.id), kept_for(db, failed.id)


async def test_a_task_says_how_long_its_jobs_are_kept(hw: Headway, db: Db) -> None:
    expected = {
        "nothing said": ({}, 7 * DAY, 30 * DAY),
        "a duration": ({"keep": "2d"}, 2 * DAY, 30 * DAY),
        "not at all": ({"keep": "none"}, None, 30 * DAY),
        "both": ({"keep": Retention(succeeded="1d", failed="3d")}, DAY, 3 * DAY),
        "no failures": ({"keep": Retention(failed="none")}, 7 * DAY, None),
        "for good": ({"keep": "forever"}, 36_500 * DAY, 30 * DAY),
    }
    tasks = {name: _task(hw, name, **options) for name, (options, *_) in expected.items()}
    found = {name: await _ends(hw, db, task) for name, task in tasks.items()}
    assert found == {name: (done, failed) for name, (_, done, failed) in expected.items()}


async def test_an_app_says_it_for_tasks_that_say_nothing(dsn: str, schema: str, db: Db) -> None:
    async with Headway(dsn, schema=schema, retention=Retention(succeeded="3d", failed="90d")) as hw:
        assert await _ends(hw, db, _task(hw, "plain")) == (3 * DAY, 90 * DAY)
        assert await _ends(hw, db, _task(hw, "own", keep="1d")) == (DAY, 90 * DAY)


async def test_a_flow_says_it_for_the_whole_of_its_job(hw: Headway, db: Db) -> None:
    def flow_of(name: str, **options: Any) -> Any:
        flow = hw.flow(name, **options)

        @flow.step
        async def first(fails: bool) -> Any:
            return second.next(fails=fails)

        @flow.step
        async def second(fails: bool) -> None:
            if fails:
                raise Fatal("no")

        return flow

    short, gone = flow_of("short", keep="2d"), flow_of("gone", keep="none")
    assert await _ends(hw, db, short) == (2 * DAY, 30 * DAY)
    assert await _ends(hw, db, gone) == (None, 30 * DAY)


async def test_the_result_of_a_job_that_is_not_kept_is_gone(hw: Headway, db: Db) -> None:
    job: Job[str] = await _task(hw, "task", keep="none").enqueue(fails=False)
    await hw.run_until_idle()
    for ask in (job.result, job.status):
        with pytest.raises(JobNotFound, match=f"no job {job.id}: .* was not kept"):
            await ask()
    assert db.execute("select count(*) from jobs").fetchone() == (0,)


async def test_g7_a_failure_that_is_not_kept_was_told_of(hw: Headway) -> None:
    task = _task(hw, "task", keep=Retention(failed="none"))
    job = await task.enqueue(fails=True)
    await hw.run_until_idle()
    stream = hw.failures("1h")
    failure = await anext(stream)
    await stream.aclose()
    assert (failure.job_id, failure.error["message"]) == (job.id, "no")
    with pytest.raises(JobNotFound):
        await job.result()


async def test_it_holds_if_a_job_ends_without_its_code(
    hw: Headway, dsn: str, schema: str, db: Db, crash: Crash, start: Any
) -> None:
    """A cancellation from another app, a consumer in SQL, the rescue of a lost worker's job."""
    task = _task(hw, "task", keep=Retention(succeeded="2d", failed="5d"))
    await hw.run_until_idle()  # a worker declares it
    cancelled, completed, lost = [(await task.enqueue(fails=True)).id for _ in range(3)]
    async with Headway(dsn, schema=schema) as stranger:
        assert await stranger.job(cancelled).cancel()
    assert kept_for(db, cancelled) == 5 * DAY
    db.execute("select complete(id, claim, '1') from claim('default', 1)")
    assert kept_for(db, completed) == 2 * DAY
    crash(lost)
    start()
    await eventually(lambda: kept_for(db, lost))
    assert kept_for(db, lost) == 5 * DAY


@pytest.mark.parametrize("keep", ["long", -1, True])
def test_what_is_no_duration_is_refused(hw: Headway, keep: Any) -> None:
    with pytest.raises(ConfigError):
        _task(hw, "task", keep=keep)


@pytest.mark.parametrize("how", ["async", "sync"])
async def test_r8_an_enqueue_whose_reply_was_lost_makes_nothing_new_of_a_job_that_was_not_kept(
    hw: Headway, dsn: str, schema: str, db: Db, how: str
) -> None:
    """The client sends it again by itself, after the job has run and left no row behind."""
    ran: list[int] = []

    @hw.task(name="echo", keep="none")
    async def echo(n: int) -> None:
        ran.append(n)

    with Proxy(dsn) as proxy:
        async with Headway(proxy.dsn, schema=schema) as far:

            @far.task(name="echo", keep="none")
            async def twin(n: int) -> None:
                raise AssertionError("it runs on the other app")

            await far.open()
            lost = proxy.lose_reply(opening("writes/enqueue_one", schema), patient=True)
            enqueuing = asyncio.create_task(
                twin.enqueue(1) if how == "async" else asyncio.to_thread(twin.enqueue_sync, 1)
            )
            await eventually(lost.answered.is_set)
            await hw.run_until_idle()
            assert ran == [1]
            assert not enqueuing.done()
            proxy.release(lost)
            await enqueuing
    await hw.run_until_idle()
    assert ran == [1]
    assert db.execute("select count(*) from jobs").fetchone() == (0,)


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "purge", "expire", "lose"])
def test_r8_sql_makes_nothing_new_with_the_id_of_a_job_that_was_not_kept(
    hand: Hand, end: str
) -> None:
    hand.rows("insert into task (name, queue, priority, max_attempts) values ('greet', 'q', 0, 1)")
    made = hand.enqueue(id=uuid4(), ttl="1 hour")
    if end in ("complete", "fail", "lose"):
        (claimed,) = hand.claim("q")
    match end:
        case "complete":
            hand.settle("complete", claimed)
        case "fail":
            hand.settle("fail", claimed, "no route")
        case "lose":
            hand.lose_consumers()
        case "expire":
            hand.rows("update job set expires_at = now()")
        case "cancel":
            hand.call("cancel", made)
        case "purge":
            hand.call("purge", "q")
    hand.sweep()
    assert hand.rows("select id from jobs") == []
    assert hand.enqueue(id=made) == made
    assert hand.rows("select id from jobs") == []
    assert hand.enqueue(id=uuid4()) != made
    assert len(hand.claim("q", 9)) == 1
