"""An option is the step's own, else the call's, else the flow's."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from headway import Context, Headway, Key, Next, Retry
from tests.support import DEADLINE, eventually

SOON = {"backoff": "constant", "base": 0, "jitter": 0}
BOTH = {"default": 1, "orders": 1, "urgent": 1, "own": 1}


def three_steps(hw: Headway, **options):
    """First and last have no options, the middle has all of its own. Each says what holds for it."""
    flow = hw.flow("options", **options)
    seen: dict[str, tuple] = {}

    def note(ctx: Context) -> None:
        left = None if ctx.deadline is None else ctx.deadline - datetime.now(UTC)
        minutes = None if left is None else round(left / timedelta(minutes=1))
        seen[ctx.step] = (ctx.queue, ctx.max_attempts, minutes)

    @flow.step
    async def first(ctx: Context) -> Next:
        note(ctx)
        return middle.next()

    @flow.step(
        queue="own", priority=7, retry=Retry(max_attempts=9), timeout="70m", concurrency_key="own"
    )
    async def middle(ctx: Context) -> Next:
        note(ctx)
        return last.after("1h")

    @flow.step
    async def last(ctx: Context) -> None:
        note(ctx)

    return flow, seen


async def facts(job) -> tuple:
    status = await job.status()
    keys = status.keys or {}
    return status.step, status.queue, status.priority, status.max_attempts, keys.get("concurrency")


async def test_a_step_without_options_has_those_of_the_flow(hw) -> None:
    flow, seen = three_steps(
        *(hw,),
        queue="orders",
        priority=2,
        retry=Retry(max_attempts=4),
        timeout="30m",
        concurrency_key="flow",
    )
    job = await flow.enqueue()
    assert await facts(job) == ("first", "orders", 2, 4, "flow")
    await hw.run_until_idle(queues=BOTH)
    assert await facts(job) == ("last", "orders", 2, 4, "flow")
    await job.retry()
    await hw.run_until_idle(queues=BOTH)
    assert seen == {"first": ("orders", 4, 30), "middle": ("own", 9, 70), "last": ("orders", 4, 30)}


async def test_the_options_of_the_call_override_the_flows_but_not_the_steps(hw) -> None:
    flow, seen = three_steps(hw, queue="orders", priority=2, timeout="30m", concurrency_key="flow")
    job = await flow.using(
        queue="urgent",
        priority=5,
        retry=Retry(max_attempts=2, **SOON),
        timeout="20m",
        concurrency_key="call",
    ).enqueue()
    assert await facts(job) == ("first", "urgent", 5, 2, "call")
    await hw.run_until_idle(queues=BOTH)
    assert await facts(job) == ("last", "urgent", 5, 2, "call")
    await job.retry()
    await hw.run_until_idle(queues=BOTH)
    assert seen == {"first": ("urgent", 2, 20), "middle": ("own", 9, 70), "last": ("urgent", 2, 20)}


async def test_the_step_where_a_job_starts_keeps_its_own_options_too(hw) -> None:
    flow = hw.flow("starts", concurrency_key="flow")

    @flow.step(
        queue="own",
        priority=7,
        retry=Retry(max_attempts=9),
        concurrency_key=lambda n: f"own-{n}",
        delay="1h",
    )
    async def first(n: int) -> Next:
        return second.after("1h")

    @flow.step
    async def second() -> None: ...

    call = flow.using(
        queue="urgent", priority=1, retry=Retry(max_attempts=1), concurrency_key="call"
    )
    jobs = [await flow.enqueue(1), await call.enqueue(2)]
    assert [await facts(job) for job in jobs] == [
        ("first", "own", 7, 9, "own-1"),
        ("first", "own", 7, 9, "own-2"),
    ]
    assert {(await job.status()).state for job in jobs} == {"scheduled"}, "its own delay"
    for job in jobs:
        await job.retry()
    await hw.run_until_idle(queues=BOTH)
    assert [await facts(job) for job in jobs] == [
        ("second", "default", 0, 20, "flow"),
        ("second", "urgent", 1, 1, "call"),
    ]


async def test_when_a_job_starts_is_for_the_call_to_say(hw) -> None:
    flow = hw.flow("starts")

    @flow.step(delay="5h")
    async def only() -> None: ...

    now = datetime.now(UTC)
    runs = [
        (await (await flow.using(**options).enqueue()).status()).run_at - now
        for options in ({}, {"delay": "1h"}, {"at": now + timedelta(hours=2)})
    ]
    assert [round(run / timedelta(hours=1)) for run in runs] == [5, 1, 2]


async def test_a_step_waits_for_its_own_delay_when_it_is_next(hw) -> None:
    flow = hw.flow("delays")

    @flow.step
    async def first() -> Next:
        return second.next()

    @flow.step(delay="3h")
    async def second() -> None: ...

    job = await flow.enqueue()
    now = datetime.now(UTC)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step) == ("scheduled", "second")
    assert timedelta(hours=2.9) < status.run_at - now < timedelta(hours=3.1)


async def test_a_step_with_no_key_on_purpose_runs_in_parallel_with_the_holder_of_the_flows_key(
    hw,
) -> None:
    flow = hw.flow("keys", concurrency_key=lambda account: f"account-{account}")

    @flow.step
    async def booked(account: int) -> Next:
        return told.after("1h", account)

    @flow.step(concurrency_key=None)
    async def told(account: int) -> Next:
        return filed.after("1h", account)

    @flow.step(concurrency_key=Key(lambda account: None if account < 0 else "files", limit=3))
    async def filed(account: int) -> None: ...

    jobs = [await flow.enqueue(5), await flow.enqueue(-5)]
    found = [[(await facts(job))[-1] for job in jobs]]
    for _ in range(2):
        await hw.run_until_idle()
        found.append([(await facts(job))[-1] for job in jobs])
        for job in jobs:
            await job.retry()
    assert found == [["account-5", "account--5"], [None, None], ["files", None]]
    assert (await jobs[0].status()).keys["limit"] == 3


async def test_only_so_many_of_a_step_run_under_its_key_and_other_steps_go_on(hw, start) -> None:
    flow = hw.flow("narrow")
    release = asyncio.Event()
    inside: list[int] = []
    most: list[int] = []

    @flow.step
    async def wide(n: int) -> Next:
        return narrow.next(n)

    @flow.step(concurrency_key="narrow")
    async def narrow(n: int) -> int:
        inside.append(n)
        most.append(len(inside))
        await release.wait()
        inside.remove(n)
        return n

    jobs = await flow.enqueue_many([{"n": n} for n in range(5)])
    start()

    async def all_moved() -> bool:
        return {(await job.status()).step for job in jobs} == {"narrow"}

    await eventually(all_moved)
    await eventually(lambda: inside)
    release.set()
    assert sorted([await job.result(timeout=DEADLINE) for job in jobs]) == [0, 1, 2, 3, 4]
    assert max(most) == 1


async def test_slots_bound_a_step_in_one_worker(hw, start) -> None:
    flow = hw.flow("slots")
    inside: list[int] = []
    most: list[int] = []
    both = asyncio.Event()

    @flow.step
    async def first(n: int) -> Next:
        return second.next(n)

    @flow.step(slots=2)
    async def second(n: int) -> int:
        inside.append(n)
        most.append(len(inside))
        if len(inside) == 2:
            both.set()
        await both.wait()
        inside.remove(n)
        return n

    jobs = await flow.enqueue_many([{"n": n} for n in range(6)])
    start(concurrency=10)
    assert [await job.result(timeout=DEADLINE) for job in jobs] == list(range(6))
    assert max(most) == 2


async def test_each_step_runs_where_it_belongs_on_the_loop_or_in_a_thread(hw) -> None:
    flow = hw.flow("places")

    @flow.step
    async def looped() -> Next:
        return threaded.next(here=threading.get_ident())

    @flow.step
    def threaded(here: int) -> bool:
        return threading.get_ident() != here

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.result() is True


async def test_a_step_is_stopped_by_its_own_timeout_and_tried_by_its_own_policy(hw) -> None:
    flow = hw.flow("slow", timeout="1h", retry=Retry(max_attempts=1))

    @flow.step
    async def first() -> Next:
        return second.next()

    @flow.step(timeout="50ms", retry=Retry(max_attempts=2, **SOON))
    async def second(ctx: Context) -> int:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.result() == 2
    assert [row.error["type"] for row in await job.attempts()] == ["TimedOut"]


async def test_a_policy_that_does_not_cover_an_error_fails_the_flow_at_that_step(hw) -> None:
    flow = hw.flow("covered", retry=Retry(max_attempts=5, **SOON))

    @flow.step
    async def first(ctx: Context) -> Next:
        if ctx.attempt < 3:
            raise KeyError("covered here")
        return second.next()

    @flow.step(retry=Retry(max_attempts=5, never=(KeyError,), **SOON))
    async def second() -> None:
        raise KeyError("not there")

    job = await flow.enqueue()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("failed", "second", 1)


@pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])
async def test_a_step_commits_its_effects_and_its_move_together_or_not_at_all(
    hw, db, plain: bool
) -> None:
    db.execute("create table account (n int)")
    schema = hw._session.schema
    flow = hw.flow("books", retry=Retry(max_attempts=2, **SOON))

    if plain:

        @flow.step(transaction=True)
        def book(ctx: Context, n: int) -> Next:
            ctx.conn.execute(f"insert into {schema}.account values (%s)", [n * 10 + ctx.attempt])
            if ctx.attempt == 1:
                raise OSError("after the write")
            return told.next(n)
    else:

        @flow.step(transaction=True)
        async def book(ctx: Context, n: int) -> Next:
            await ctx.conn.execute(
                f"insert into {schema}.account values (%s)", [n * 10 + ctx.attempt]
            )
            if ctx.attempt == 1:
                raise OSError("after the write")
            return told.next(n)

    @flow.step
    async def told(n: int) -> int:
        return n

    job, bad = await flow.enqueue(1), await flow.enqueue(2)
    await hw.run_until_idle()
    assert [await job.result(), await bad.result()] == [1, 2]
    assert sorted(db.execute("select n from account").fetchall()) == [(12,), (22,)]
