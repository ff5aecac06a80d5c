"""The defects of underway that are about one job: Headway has none of them (UD4 to UD6, UD9 to UD12)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headway import Context, Fatal, Headway, KeyTaken, Next, Retry, Snooze, Unique
from headway.store import fleet, jobs
from tests.reference.scenes import ONE_CRASH, give_up, lose, promote, rescue
from tests.store.store import Store
from tests.support import DEADLINE, eventually


def test_ud4_a_late_beat_costs_nothing(store: Store, worker: int) -> None:
    """Underway: one beat in a lease; a late one and two run the task. Headway: three, two may fail."""
    claim = store.held(worker)
    store.advance(29)
    assert store.run(fleet.heartbeat(worker, 30, store.now)) is not None
    store.advance(29)
    assert rescue(store) == (0, 0)
    assert store.settle(claim, "succeed")
    assert store.attempts(claim.id) == []


async def test_ud4_who_lost_a_job_is_told_to_stop(hw: Headway, store: Store, start: Any) -> None:
    """Underway: the loser runs to the end. Headway: its handler is cancelled, and it works on."""
    running, stopped = asyncio.Event(), asyncio.Event()

    @hw.task
    async def work(ctx: Context) -> int:
        if not running.is_set():
            running.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
        return ctx.attempt

    start(lease="6s")
    job = await work.enqueue()
    await asyncio.wait_for(running.wait(), DEADLINE)
    give_up(store)
    await asyncio.wait_for(stopped.wait(), DEADLINE)
    assert await job.result(timeout=DEADLINE) == 1, "the attempt was given back"


async def test_ud5_jobs_of_one_key_wait_for_each_other_and_lose_no_attempt(hw: Headway) -> None:
    """Underway: a second enqueue is an error; a clash burns an attempt. Headway: a line."""
    inside, seen = 0, list[tuple[int, int]]()

    @hw.task(concurrency_key="printer")
    async def work(ctx: Context) -> None:
        nonlocal inside
        inside += 1
        for _ in range(10):
            await asyncio.sleep(0)
        seen.append((inside, ctx.attempt))
        inside -= 1

    await work.enqueue_many([{} for _ in range(5)])
    await hw.run_until_idle()
    assert seen == [(1, 1)] * 5


async def test_ud5_who_comes_second_to_a_unique_key_is_skipped_replaced_or_rejected(
    hw: Headway,
) -> None:
    """Underway: always a database error. Headway: as the task or the call says (decision 63)."""

    @hw.task
    async def work(number: int) -> None: ...

    def once(policy: Any) -> Any:
        return work.using(unique=Unique(policy, policy=policy))

    for policy, kept in (("skip", 1), ("replace", 2)):
        first, second = await once(policy).enqueue(1), await once(policy).enqueue(2)
        assert (first.made, second.made, first) == (True, False, second)
        assert (await first.status()).input == {"number": kept}
    await once("reject").enqueue(1)
    with pytest.raises(KeyTaken):
        await once("reject").enqueue(2)


async def test_ud6_a_dead_letter_arrives_and_can_be_run(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: a foreign key refuses every one. Headway: a worker of that queue runs it."""

    @hw.task(dead_letter="dead", retry=Retry(max_attempts=1))
    async def work(ctx: Context) -> str:
        if ctx.queue != "dead":
            raise RuntimeError("broken")
        return "mended"

    await work.enqueue()
    await hw.run_until_idle()
    ((letter,),) = db.execute("select id from job").fetchall()
    await hw.run_until_idle(queues={"dead": 1})
    assert await hw.job(letter).result() == "mended"


def test_ud6_a_retry_waits_also_when_the_job_is_older_than_its_delay(store: Store) -> None:
    """Underway: the delay counts from the creation. Headway: from the failure."""
    job_id = store.enqueue()
    store.advance(3600)
    (claim,) = store.claim(store.register())
    store.settle(claim, "retry", delay=60)
    assert promote(store).count == 0
    assert store.row(job_id)["run_at"] == store.now + timedelta(minutes=1)


async def test_ud6_poison_fails_at_once_and_says_why(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: stuck in progress, then for ever. Headway: InvalidInput, at the first attempt (G8)."""

    @hw.task
    async def work(number: int) -> None: ...

    job = await work.enqueue(1)
    db.execute("update job set input = '{}'")
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt) == ("failed", 1)
    assert status.error is not None
    assert status.error["type"] == "InvalidInput"


def test_ud6_the_last_crash_ends_the_job(store: Store, worker: int) -> None:
    """Underway: in progress for ever. Headway: failed as soon as the lease is over (G6)."""
    claim = store.held(worker, **ONE_CRASH)
    lose(store)
    assert store.states(claim.id) == ["failed"]


async def test_ud6_the_words_of_a_fatal_error_are_kept(hw: Headway) -> None:
    """Underway: not recorded. Headway: with the job and with its attempt."""

    @hw.task
    async def work() -> None:
        raise Fatal("no such customer")

    job = await work.enqueue()
    await hw.run_until_idle()
    (attempt,) = await job.attempts()
    assert attempt.error is not None
    assert attempt.error["message"] == "no such customer"
    assert (await job.status()).error == attempt.error


def test_ud6_the_end_of_a_step_and_the_next_one_are_one_write(store: Store, worker: int) -> None:
    """Underway: the next step commits first. Headway: one transaction (decision 51, G5)."""
    claim = store.held(worker, step="one")
    assert store.settle(claim, "advance", step="two")
    row = store.one("select j.step, a.next_step, j.xmin = a.xmin as one from job j, attempt a")
    assert row == {"step": "two", "next_step": "two", "one": True}


async def test_ud9_a_running_job_shows_its_progress_and_can_be_cancelled(
    hw: Headway, start: Any
) -> None:
    """Underway: neither; only a pending task can be cancelled. Headway: both."""

    @hw.task
    async def work(ctx: Context) -> None:
        await ctx.progress(50, "half way")
        await asyncio.Event().wait()

    start()
    job = await work.enqueue()

    async def progress() -> Any:
        return (await job.status()).progress

    assert await eventually(progress) == {"percent": 50, "message": "half way"}
    assert await job.cancel()

    async def ended() -> bool:
        return (await job.status()).finished

    await eventually(ended)
    assert (await job.status()).state == "cancelled"


async def test_ud9_a_paused_queue_keeps_its_jobs_until_it_is_resumed(hw: Headway) -> None:
    """Underway: no pause, and results are thrown away. Headway: pause and resume; results are kept."""

    @hw.task
    async def work() -> str:
        return "done"

    job = await work.enqueue()
    await hw.queues.pause("default", reason="provider down")
    assert (await hw.run_until_idle()).total == 0
    assert await hw.queues.resume("default")
    await hw.run_until_idle()
    assert await job.result() == "done"


def test_ud10_work_whose_time_is_over_is_not_deleted_silently(store: Store) -> None:
    """Underway: a DELETE takes pending work. Headway: it ends as expired, with its input (G7)."""
    job_id = store.enqueue(ttl=60, input={"number": 3})
    store.advance(61)
    assert store.run(jobs.expire(store.target, 10, store.now)) == 1
    archived = store.archived(job_id)
    assert archived is not None
    assert (archived["state"], archived["input"]) == ("e", {"number": 3})


async def test_ud11_waiting_costs_no_attempt(hw: Headway) -> None:
    """Underway: every resume is an attempt. Headway: a snooze costs none, a step starts anew."""
    flow = hw.flow("patient", retry=Retry(max_attempts=1))
    snoozed: list[int] = []

    @flow.step
    async def only(ctx: Context, turn: int) -> Next | int:
        if len(snoozed) < 3:
            snoozed.append(ctx.attempt)
            raise Snooze(0)
        return only.next(turn=turn + 1) if turn < 5 else ctx.attempt

    job = await flow.enqueue(turn=0)
    await hw.run_until_idle()
    assert await job.result() == 1
    assert snoozed == [1, 1, 1]


async def test_ud12_a_step_may_branch_go_back_and_make_other_jobs(hw: Headway) -> None:
    """Underway: steps in a row and nothing else. Headway: a state machine, and children."""
    flow = hw.flow("walk")
    ran: list[str] = []

    @hw.task
    async def child(name: str) -> None:
        ran.append(name)

    @flow.step
    async def start(turn: int) -> Next:
        return back.next(turn) if turn < 2 else out.next()

    @flow.step
    async def back(turn: int) -> Next:
        return start.next(turn + 1)

    @flow.step
    async def out(ctx: Context) -> str:
        for name in ("a", "b"):
            await ctx.enqueue(child, name)
        return "out"

    job = await flow.enqueue(0)
    await hw.run_until_idle()
    assert [row.step for row in await job.history()] == ["start", "back"] * 2 + ["start", "out"]
    assert sorted(ran) == ["a", "b"]
