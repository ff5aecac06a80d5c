"""`ctx.enqueue`: jobs that exist if, and only if, the attempt that made them succeeds."""

import asyncio

import pytest

from headway import Context, Fatal, Headway, Job, Key, KeyTaken, Next, Retry, Snooze, Task, Unique
from headway.errors import InvalidInput
from tests.flows.process_children import parent_in_process, small
from tests.support import DEADLINE, eventually

AT_ONCE = Retry(max_attempts=2, backoff="constant", base=0, jitter=0)


@pytest.fixture
def child(hw: Headway) -> Task:
    @hw.task
    async def child(n: int) -> int:
        return n

    return child


def made(db) -> list[int]:
    """The inputs of the children there are."""
    rows = db.execute("select (input ->> 'n')::int from jobs where task = 'child' order by 1")
    return [row[0] for row in rows]


@pytest.mark.parametrize("kind", ["async", "thread", "async transaction", "thread transaction"])
async def test_children_of_a_failed_attempt_do_not_exist_and_those_of_a_retry_exist_once(
    hw, db, child, kind: str
) -> None:
    jobs: list[Job[int]] = []
    options = {"retry": AT_ONCE, "transaction": kind.endswith("transaction")}
    if kind.startswith("async"):

        @hw.task(**options)
        async def parent(ctx: Context) -> int:
            jobs.append(await ctx.enqueue(child, n=ctx.attempt))
            jobs.append(await ctx.enqueue(child, n=10 + ctx.attempt))
            if ctx.attempt == 1:
                raise OSError("after both")
            return ctx.attempt
    else:

        @hw.task(**options)
        def parent(ctx: Context) -> int:
            jobs.append(ctx.enqueue_sync(child, n=ctx.attempt))
            jobs.append(ctx.enqueue_sync(child, n=10 + ctx.attempt))
            if ctx.attempt == 1:
                raise OSError("after both")
            return ctx.attempt

    job = await parent.enqueue()
    await hw.run_until_idle()
    assert await job.result() == 2
    assert made(db) == [2, 12]
    assert [await made.result() for made in jobs[2:]] == [2, 12]


async def test_children_made_in_a_process_exist_once_too(dsn: str, schema: str, db) -> None:
    async with Headway(dsn, schema=schema) as hw:
        for task in (parent_in_process, small):
            hw.tasks[task.name] = Task(hw._session, task.definition)
        job = await hw.enqueue("parent_in_process")
        await hw.run_until_idle(processes=1)
        ids = await job.result()
        rows = db.execute(
            "select id::text, input ->> 'n', queue, state from jobs where task = 'small' order by id"
        )
        assert rows.fetchall() == [
            (ids[0], "2", "default", "succeeded"),
            (ids[1], "2", "elsewhere", "scheduled"),
        ]


@pytest.mark.parametrize("end", [Fatal("no"), Snooze("1h"), "unstorable", "timeout", "cancel"])
async def test_no_end_but_success_makes_children(hw, db, child, start, end) -> None:
    began = asyncio.Event()

    @hw.task(retry=Retry(max_attempts=1), timeout="100ms" if end == "timeout" else None)
    async def parent(ctx: Context):
        await ctx.enqueue(child, n=1)
        began.set()
        if isinstance(end, Exception):
            raise end
        if end == "unstorable":
            return object()
        return await asyncio.Event().wait()

    job = await parent.enqueue()
    start()
    await asyncio.wait_for(began.wait(), DEADLINE)
    if end == "cancel":
        await job.cancel()

    async def left_the_worker() -> str | None:
        state = (await job.status()).state
        return None if state == "running" else state

    ended = {"cancel": "cancelled", "1h": "scheduled"}.get(str(end), "failed")
    assert await eventually(left_the_worker) == ended
    assert made(db) == []


async def test_children_have_the_options_of_their_call(hw, db, child) -> None:
    @hw.task
    async def parent(ctx: Context) -> None:
        bound = child.using(
            delay="1h",
            priority=7,
            queue="elsewhere",
            headers={"by": str(ctx.job_id)},
            retry=Retry(max_attempts=9),
            concurrency_key=Key("key", limit=2),
        )
        await ctx.enqueue(bound, 1)

    job = await parent.enqueue()
    await hw.run_until_idle()
    (made_id,) = db.execute("select id from jobs where task = 'child'").fetchone()
    status = await hw.job(made_id).status()
    assert (status.state, status.priority, status.queue) == ("scheduled", 7, "elsewhere")
    assert (status.headers, status.max_attempts) == ({"by": str(job.id)}, 9)
    assert (status.keys["concurrency"], status.keys["limit"]) == ("key", 2)


async def test_flows_and_steps_are_children_too_and_a_step_makes_some_with_its_move(
    hw, db, child
) -> None:
    flow = hw.flow("flow", retry=AT_ONCE)

    @flow.step
    async def first(ctx: Context, depth: int) -> Next:
        await ctx.enqueue(child, n=depth * 10 + ctx.attempt)
        if depth == 0:
            await ctx.enqueue(flow, depth=1)
            await ctx.enqueue(second, "directly")
        if ctx.attempt == 1:
            raise OSError("again")
        return second.next(f"from {depth}")

    @flow.step
    def second(ctx: Context, words: str) -> str:
        ctx.enqueue_sync(child, n=100)
        return words

    await flow.enqueue(0)
    await hw.run_until_idle()
    assert made(db) == [2, 12, 100, 100, 100]
    words = db.execute("select result from jobs where task = 'flow'").fetchall()
    assert sorted(words) == [("directly",), ("from 0",), ("from 1",)]


async def test_a_bad_call_of_a_child_raises_in_the_handler(hw, db, child) -> None:
    @hw.task
    async def parent(ctx: Context) -> str:
        with pytest.raises(InvalidInput, match="Expected `int`, got `str`"):
            await ctx.enqueue(child, "one")
        return "went on"

    job = await parent.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "went on"
    assert made(db) == []


async def test_a_child_whose_unique_key_is_taken_is_not_made_and_the_parent_succeeds(
    hw, db, child
) -> None:
    @hw.task
    async def parent(ctx: Context) -> None:
        for n in (2, 3):
            await ctx.enqueue(child.using(unique=f"key-{n}", delay="1h"), n)

    await child.using(unique="key-2", delay="1h").enqueue(1)
    job = await parent.enqueue()
    await hw.run_until_idle()
    assert await job.result() is None
    assert made(db) == [1, 3]


@pytest.mark.parametrize("transaction", [False, True], ids=["plain", "transaction"])
async def test_a_child_that_is_rejected_fails_its_parent_and_nobody_else(
    hw, db, child, transaction: bool
) -> None:
    @hw.task(transaction=transaction, retry=AT_ONCE)
    async def parent(ctx: Context, n: int) -> None:
        unique = Unique("taken" if n == 2 else f"free-{n}", policy="reject")
        await ctx.enqueue(child.using(unique=unique, delay="1h"), n)

    await child.using(unique="taken", delay="1h").enqueue(0)
    jobs = await parent.enqueue_many([{"n": n} for n in range(1, 5)])
    await hw.run_until_idle()
    states = [(await job.status()).state for job in jobs]
    assert states == ["succeeded", "failed", "succeeded", "succeeded"]
    assert "unique key taken of task child is taken" in (await jobs[1].status()).error["message"]
    assert made(db) == [0, 1, 3, 4]
    with pytest.raises(KeyTaken):
        await child.using(unique=Unique("taken", policy="reject")).enqueue(9)
