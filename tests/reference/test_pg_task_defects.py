"""The defects of pg_task, PD1 to PD8: Headway has none of them."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg import sql

from headway import Context, Headway, Next, Retry
from tests.reference.scenes import backends, lose, work_of
from tests.store.store import Store, ask
from tests.support import DEADLINE, eventually

AT_ONCE = Retry(max_attempts=2, base=0)


def test_pd1_a_job_that_kills_its_workers_fails_in_the_end(store: Store, worker: int) -> None:
    """pg_task: a crash counts for nothing, for ever. Headway: crashes are counted, and three in a row
    fail a job (G6)."""
    claim = store.held(worker)
    for _ in range(2):
        (claim,) = store.claim(lose(store))
    lose(store)
    assert store.states(claim.id) == ["failed"]
    assert [row["error"]["type"] for row in store.attempts(claim.id)] == ["WorkerLost"] * 3


async def test_pd1_a_step_that_hangs_is_stopped(hw: Headway) -> None:
    """pg_task: a step holds its lease as long as it hangs. Headway: a timeout, for each step."""
    flow = hw.flow("hangs")

    @flow.step(timeout="50ms", retry=Retry(max_attempts=1))
    async def only() -> None:
        await asyncio.Event().wait()

    job = await flow.enqueue()
    await hw.run_until_idle()
    error = (await job.status()).error
    assert error is not None
    assert error["type"] == "TimedOut"


def test_pd2_claims_and_ends_wake_nobody(store: Store, worker: int) -> None:
    """pg_task: each claim and each end wakes every worker. Headway: only who waits for it."""
    for _ in range(3):
        store.enqueue()
    with store.listening(store.target.work_channel, store.target.done_channel) as heard:
        for claim in store.claim(worker):
            assert store.settle(claim, "succeed")
        assert heard() == []


async def test_pd3_a_step_of_a_newer_deploy_is_left_for_it(
    hw: Headway, dsn: str, schema: str
) -> None:
    """pg_task: an older worker marks it as an error. Headway: it does not claim it."""

    def deploy(app: Headway) -> Any:
        flow = app.flow("order")

        @flow.step
        async def pack() -> None: ...

        return flow

    deploy(hw)
    async with Headway(dsn, schema=schema) as newer:
        flow = deploy(newer)

        @flow.step
        async def ship() -> str:
            return "shipped"

        job = await ship.enqueue()
        assert (await hw.run_until_idle()).total == 0
        status = await job.status()
        assert (status.state, status.attempt) == ("ready", 0)
        await newer.run_until_idle()
        assert await job.result() == "shipped"


def test_pd3_queues_and_priorities_say_who_runs_what_and_when(store: Store, worker: int) -> None:
    """pg_task: one line for all. Headway: a worker has its queues, each with strict priorities."""
    made = [store.enqueue(priority=priority) for priority in (0, 2, 1)]
    store.enqueue(queue="elsewhere", priority=3)
    lanes = [ask(priority=priority) for priority in (2, 1, 0)]
    claimed = sorted(store.claim(worker, *lanes, room=2), key=lambda claim: -claim.priority)
    assert [claim.id for claim in claimed] == [str(made[1]), str(made[2])]


async def test_pd4_what_went_wrong_on_the_way_is_kept_after_the_success(hw: Headway) -> None:
    """pg_task: the row goes, errors on the way are only logged. Headway: history, result, attempts;
    the policy of one call may be another one, and its delays may grow."""

    @hw.task(retry=Retry(max_attempts=1))
    async def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise OSError("on the way")
        return "done"

    job = await work.using(retry=AT_ONCE).enqueue()
    await hw.run_until_idle()
    assert await job.result() == "done"
    (failed,) = await job.history()
    assert failed.error is not None
    assert failed.error["message"] == "on the way"
    assert [Retry(jitter=0).delay(attempt, 0) for attempt in (1, 2, 3)] == [1, 2, 4]


async def test_pd5_a_lost_claim_stops_neither_its_worker_nor_other_jobs(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """pg_task: the worker ends and aborts all its steps. Headway: that verdict counts for nothing."""
    running, release = asyncio.Semaphore(0), asyncio.Event()

    @hw.task
    async def work() -> str:
        running.release()
        await release.wait()
        return "its own"

    worker = start()
    lost, innocent = await work.enqueue(), await work.enqueue()
    for _ in range(2):
        await asyncio.wait_for(running.acquire(), DEADLINE)
    settled = db.execute(
        "select complete(id, claim, '\"another\"') from job where id = %s", [lost.id]
    )
    assert settled.fetchone() == (True,)
    release.set()
    assert await innocent.result(timeout=DEADLINE) == "its own"
    assert await lost.result(timeout=DEADLINE) == "another"
    assert await (await work.enqueue()).result(timeout=DEADLINE) == "its own"
    assert not worker.done()


async def test_pd5_an_end_that_cannot_be_saved_hurts_its_own_job_alone(
    hw: Headway, start: Any
) -> None:
    """pg_task: the worker ends. Headway: a batch that is refused is taken apart (decision 28)."""

    @hw.task
    async def work(text: str) -> str:
        return text.replace("nul", "\0")

    worker = start()
    made = await work.enqueue_many({"text": text} for text in ("a", "nul", "b"))
    good = [await made[place].result(timeout=DEADLINE) for place in (0, 2)]
    assert good == ["a", "b"]

    async def ended() -> bool:
        return (await made[1].status()).finished

    await eventually(ended)
    status = await made[1].status()
    assert status.error is not None
    assert (status.state, status.error["type"]) == ("failed", "InvalidResult")
    assert not worker.done()


async def test_pd6_a_stop_is_for_one_worker(
    hw: Headway, start: Any, schema: str, db: psycopg.Connection[Any]
) -> None:
    """pg_task: a notification stops every worker of the database. Headway: none does."""
    work = work_of(hw)
    one, other = start(), start()
    await eventually(lambda: len(backends(db, "headway worker %")) == 2)
    for word in ("stop_worker", "stop"):
        db.execute(sql.SQL("select pg_notify({}, {})").format(f"{schema}_work", word))
    await one.stop()
    assert await (await work.enqueue(3)).result(timeout=DEADLINE) == 3
    assert (one.done(), other.done()) == (True, False)


async def test_pd7_a_step_that_is_resumed_has_all_its_attempts(hw: Headway) -> None:
    """pg_task: `tried` stays, the next failure is the last. Headway: attempts start anew, at the step
    that failed; what was done before is not done again."""
    flow = hw.flow("resumed")
    ran: list[str] = []

    @flow.step
    async def first() -> Next:
        ran.append("first")
        return second.next()

    @flow.step(retry=AT_ONCE)
    async def second(ctx: Context) -> int:
        ran.append(f"second {ctx.attempt}")
        if len(ran) < 5:
            raise OSError
        return ctx.attempt

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).state == "failed"
    assert await job.retry()
    await hw.run_until_idle()
    assert await job.result() == 2
    assert ran == ["first", "second 1", "second 2", "second 1", "second 2"]


async def test_pd8_effects_and_the_move_to_the_next_step_are_one_commit(
    hw: Headway, schema: str, db: psycopg.Connection[Any]
) -> None:
    """pg_task: a step has a pool, and the transition comes later. Headway: `transaction=True`."""
    db.execute("create table sent (attempt int)")
    flow = hw.flow("mail", retry=AT_ONCE)

    @flow.step(transaction=True)
    async def send(ctx: Context) -> Next:
        await ctx.conn.execute(f"insert into {schema}.sent values (%s)", [ctx.attempt])
        if ctx.attempt == 1:
            raise OSError
        return note.next()

    @flow.step
    async def note() -> None: ...

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).state == "succeeded"
    assert db.execute(
        "select s.attempt, s.xmin = a.xmin from sent s, attempt a where a.outcome = 'n'"
    ).fetchall() == [(2, True)]


async def test_pd8_the_same_work_is_not_made_twice(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """pg_task: no deduplication. Headway: a unique key, exact in concurrent transactions."""

    @hw.task(unique=lambda number: f"invoice-{number}")
    async def work(number: int) -> None: ...

    made = await asyncio.gather(*(work.enqueue(number=7) for _ in range(8)))
    assert sorted(job.made for job in made) == [False] * 7 + [True]
    assert len({job.id for job in made}) == 1
    assert db.execute("select count(*) from job").fetchone() == (1,)
