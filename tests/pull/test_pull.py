"""Jobs for consumers that are no workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from headway import Fatal, Headway, PulledJob, Snooze
from headway.errors import ConfigError
from tests.sql.hand import Hand
from tests.support import DEADLINE, eventually


@pytest.fixture(params=[True, False], ids=["listening", "polling"])
async def app(dsn: str, schema: str, request: pytest.FixtureRequest) -> AsyncIterator[Headway]:
    """An app that is notified of jobs, and one that is not."""
    app = Headway(dsn, schema=schema, notify=request.param)
    yield app
    await app.close()


async def _pulled(hw: Headway, number: int, queue: str = "ext", **options: Any) -> list[PulledJob]:
    """Return the first jobs; each must come in time."""
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull(queue, **options)) as pulled:
        return [await anext(pulled) for _ in range(number)]


async def test_a_job_that_is_there_is_pulled_and_completed(app: Headway, hand: Hand) -> None:
    made = hand.enqueue("resize", {"n": 1}, queue="ext", headers={"trace": "t"}, priority=3)
    (job,) = await _pulled(app, 1)
    assert (job.id, job.claim >> 32, job.task, job.step) == (made, 1, "resize", "")
    assert (job.attempt, job.max_attempts, job.priority) == (1, 20, 3)
    assert (job.input, job.headers, job.key) == ({"n": 1}, {"trace": "t"}, None)
    assert hand.state(made) == "running"
    assert await job.complete({"width": 10})
    assert job.settled
    ended = hand.ended(made)
    assert (ended["state"], ended["result"]) == ("succeeded", {"width": 10})


async def test_a_consumer_that_waits_is_given_what_comes(app: Headway, hand: Hand) -> None:
    async with asyncio.timeout(DEADLINE), aclosing(app.pull("ext")) as pulled:
        for n in range(3):
            coming = asyncio.ensure_future(anext(pulled))
            await asyncio.sleep(0)
            made = hand.enqueue("resize", {"n": n}, queue="ext")
            job = await coming
            assert (job.id, job.input) == (made, {"n": n})
            await job.complete()


async def test_a_consumer_that_waits_holds_no_transaction_and_no_snapshot(
    hw: Headway, hand: Hand
) -> None:
    target = hw._session.target
    puller = Headway(make_conninfo(target.dsn, application_name="puller"), schema=target.schema)
    async with puller, aclosing(puller.pull("ext")) as pulled:
        coming = asyncio.ensure_future(anext(pulled))
        others = (
            "select count(*) as all, count(*) filter (where state <> 'idle' or backend_xmin is not null) "
            "as busy from pg_stat_activity where datname = current_database() "
            "and application_name = 'puller'"
        )
        # One that listens and one of the pool, neither of which does anything.
        await eventually(lambda: hand.row(others) == {"all": 2, "busy": 0})
        hand.enqueue(queue="ext")
        async with asyncio.timeout(DEADLINE):
            assert await (await coming).complete()


async def test_only_the_tasks_asked_for_are_pulled(hw: Headway, hand: Hand) -> None:
    hand.enqueue("other", queue="ext")
    wanted = hand.enqueue("resize", queue="ext")
    (job,) = await _pulled(hw, 1, tasks=["resize"])
    assert job.id == wanted
    assert await job.complete()


async def test_jobs_of_a_key_come_one_by_one_in_order(hw: Headway, hand: Hand) -> None:
    keyed = {"queue": "ext", "concurrency_key": "tenant", "ordered": True}
    made = [hand.enqueue("resize", {"n": n}, **keyed) for n in range(4)]
    hand.enqueue("resize", {"n": 9}, queue="ext", concurrency_key="another")
    seen: list[PulledJob] = []
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", count=10)) as pulled:
        async for job in pulled:
            if job.key == "tenant":
                alone = "select count(*) from job where key = 'tenant' and state = 'x'"
                assert hand.value(alone) == 1
            seen.append(job)
            # The second fails once: the others of its key wait for it.
            if job.id == made[1] and job.attempt == 1:
                await job.fail("once", delay=0)
            else:
                await job.complete()
            if len(seen) == 6:
                break
    tenants = [job.id for job in seen if job.key == "tenant"]
    assert tenants == [made[0], made[1], made[1], made[2], made[3]]


async def test_a_loop_that_is_left_gives_back_what_it_did_not_hand_out(
    hw: Headway, hand: Hand
) -> None:
    made = [hand.enqueue("resize", queue="ext") for _ in range(5)]
    (first,) = await _pulled(hw, 1, count=5)
    assert await first.complete()
    rows = hand.rows(
        "select id, state::text as state, attempt, claim >> 32 as claims from job order by seq"
    )
    assert [row["id"] for row in rows] == [job for job in made if job != first.id]
    assert {(row["state"], row["attempt"], row["claims"]) for row in rows} == {("r", 0, 1)}


async def test_a_loop_that_is_broken_off_gives_back_all_the_same(hw: Headway, hand: Hand) -> None:
    for _ in range(3):
        hand.enqueue("resize", queue="ext")
    async for job in hw.pull("ext", count=3):
        await job.complete()
        break
    await eventually(lambda: hand.value("select count(*) from job where state = 'r'") == 2)


async def test_what_lay_in_the_consumer_for_half_its_lease_is_extended_before_it_is_handed_out(
    hw: Headway, hand: Hand
) -> None:
    for _ in range(3):
        hand.enqueue("resize", queue="ext")
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", count=3, lease="1h")) as pulled:
        first = await anext(pulled)
        _claimed(pulled)[0]._fresh_until = 0  # pyright: ignore[reportPrivateUsage]
        until = hand.value("select expires_at from worker")
        second = await anext(pulled)
        assert hand.value("select expires_at from worker") > until
        # The third was lost meanwhile: it is not handed out.
        third = _claimed(pulled)[0]
        third._fresh_until = 0  # pyright: ignore[reportPrivateUsage]
        hand.rows("update job set claim = claim + 1 where id = %s", third.id)
        fourth = hand.enqueue("resize", queue="ext")
        assert (await anext(pulled)).id == fourth
        assert await first.complete()
        assert await second.complete()


def _claimed(pulled: Any) -> Any:
    """Return the jobs that a consumer has claimed and not yielded."""
    return pulled.ag_frame.f_locals["claimed"]


async def test_a_lost_claim_settles_nothing_and_says_so(hw: Headway, hand: Hand) -> None:
    hand.enqueue("resize", queue="ext")
    (job,) = await _pulled(hw, 1)
    hand.lose_consumers()
    hand.sweep()
    (again,) = await _pulled(hw, 1)
    assert (again.id, again.claim >> 32) == (job.id, 2)
    before = hand.everything()
    assert not await job.extend()
    for settling in (job.complete(), job.fail("why"), job.release(), job.snooze("1m")):
        assert not await settling
    assert hand.everything() == before
    assert await again.complete()


async def test_every_way_to_settle_is_that_of_the_functions_in_sql(hw: Headway, hand: Hand) -> None:
    for _ in range(4):
        hand.enqueue("resize", queue="ext", max_attempts=2)
    again, failed, released, snoozed = await _pulled(hw, 4, count=4)
    assert await again.fail("later", delay="1h")
    assert await failed.fail("bad \0 input", again=False)
    assert await released.release()
    assert await snoozed.snooze("1h")
    assert hand.state(again.id) == "scheduled"
    assert hand.job(again.id)["attempt"] == 1
    assert hand.ended(failed.id)["error"] == {"type": "Failed", "message": "bad \\0 input"}
    assert (hand.state(released.id), hand.job(released.id)["attempt"]) == ("ready", 0)
    assert (hand.state(snoozed.id), hand.job(snoozed.id)["attempt"]) == ("scheduled", 0)


async def test_extending_keeps_a_job_and_a_cancelled_one_is_to_stop(
    hw: Headway, hand: Hand
) -> None:
    hand.enqueue("resize", queue="ext")
    (job,) = await _pulled(hw, 1, lease="1m")
    until = hand.value("select expires_at from worker")
    assert await job.extend("1h")
    assert hand.value("select expires_at from worker") > until
    hand.call("cancel", job.id)
    assert not await job.extend()


async def test_a_block_completes_or_fails_its_job(
    hw: Headway, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        hand.enqueue("resize", queue="ext", max_attempts=9)
    done, failed, fatal, snoozed, settled = await _pulled(hw, 5, count=5)
    async with done:
        pass
    async with failed:
        raise ValueError("no such image")
    async with fatal:
        raise Fatal("never")
    async with snoozed:
        raise Snooze("1h")
    async with settled:
        await settled.complete("mine")
        raise RuntimeError("afterwards")
    assert hand.state(done.id) == "succeeded"
    attempt = hand.row("select error from attempt where job_id = %s", failed.id)
    assert attempt["error"]["message"] == "ValueError: no such image"
    assert hand.state(failed.id) == "scheduled"
    assert hand.ended(fatal.id)["error"]["message"] == "Fatal: never"
    assert (hand.state(snoozed.id), hand.job(snoozed.id)["attempt"]) == ("scheduled", 0)
    assert hand.ended(settled.id)["result"] == "mine"
    assert caplog.text.count("no such image") >= 1
    assert str(snoozed.id) not in caplog.text


async def test_a_block_that_is_cancelled_gives_its_job_back(hw: Headway, hand: Hand) -> None:
    hand.enqueue("resize", queue="ext")
    (job,) = await _pulled(hw, 1)
    begun = asyncio.Event()

    async def work() -> None:
        async with job:
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (hand.state(job.id), hand.job(job.id)["attempt"]) == ("ready", 0)


async def test_a_block_that_ends_too_late_says_so(
    hw: Headway, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    hand.enqueue("resize", queue="ext")
    (job,) = await _pulled(hw, 1)
    async with job:
        hand.lose_consumers()
        hand.sweep()
    assert "settled too late" in caplog.text
    assert hand.state(job.id) == "ready"


async def test_what_is_due_later_comes_where_no_worker_lives(hw: Headway, hand: Hand) -> None:
    made = hand.enqueue("resize", queue="ext", delay="1 s")
    (job,) = await _pulled(hw, 1)
    assert job.id == made
    assert await job.complete()


async def test_a_queue_that_is_resumed_is_pulled_from(
    app: Headway, hand: Hand, waits: asyncio.Event
) -> None:
    hand.call("pause", "ext")
    made = hand.enqueue("resize", queue="ext")
    async with asyncio.timeout(DEADLINE), aclosing(app.pull("ext")) as pulled:
        coming = asyncio.ensure_future(anext(pulled))
        await waits.wait()
        hand.call("resume", "ext")
        job = await coming
    assert job.id == made
    assert await job.complete()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": ""}, "queue ''"),
        ({"lease": "0.5s"}, "call extend"),
        ({"lease": "2d"}, "call extend"),
        ({"count": 0}, "from 1 to 10000"),
        ({"count": "3"}, "from 1 to 10000"),
        ({"tasks": []}, "leave it out to claim all"),
        ({"queue": "*"}, "from one queue"),
        ({"tasks": "resize"}, r"give a list: \['resize'\]"),
        ({"tasks": [""]}, "task ''"),
    ],
)
async def test_what_cannot_be_right_is_refused_before_the_first_look(
    hw: Headway, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        hw.pull(**{"queue": "ext"} | options)
    with pytest.raises(ConfigError, match=words):
        hw.pull_sync(**{"queue": "ext"} | options)
