"""Concurrency keys: no more of one key run at once than may, wherever they run; others go on."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Key
from headway.errors import ConfigError, InvalidInput
from tests.keys.told import Told
from tests.support import DEADLINE, eventually

_STATES = "select label(state), count(*)::int from job where key = %s group by 1"


def states(db: psycopg.Connection[Any], key: str) -> dict[str, int]:
    return dict(db.execute(_STATES, [key]).fetchall())


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_no_more_than_the_limit_of_a_key_run_at_once(
    hw: Headway, start, told: Told, limit: int
) -> None:
    @hw.task(concurrency_key=Key(lambda key, **_: key, limit=limit))
    async def work(key: str, n: int) -> None:
        async with told.running(key, n):
            await asyncio.sleep(0)

    jobs = await work.enqueue_many({"key": key, "n": n} for n in range(10) for key in "abc")
    for _ in range(3):
        start(concurrency=20)
    for job in jobs:
        await job.result(timeout=DEADLINE)
    assert all(most <= limit for most in told.most_at_once().values())
    assert sorted(told.began("a")) == list(range(10))


async def test_as_many_as_the_limit_do_run_at_once(hw: Headway, start) -> None:
    """Each waits for two others to be there."""
    met = asyncio.Barrier(3)

    @hw.task(concurrency_key=Key("k", limit=3))
    async def work() -> None:
        await met.wait()

    jobs = await work.enqueue_many({} for _ in range(9))
    start(poll="1h")
    for job in jobs:
        await job.result(timeout=DEADLINE)


async def test_a_long_line_holds_up_nobody_else(
    hw: Headway, start, db: psycopg.Connection[Any]
) -> None:
    """A job that waits for room is not ready: the claim never reads it."""
    gate = asyncio.Event()

    @hw.task(concurrency_key=lambda key: key)
    async def work(key: str | None) -> None:
        if key == "long":
            await gate.wait()

    await work.enqueue_many({"key": "long"} for _ in range(60))
    start(concurrency=2, poll="1h")
    await eventually(lambda: states(db, "long") == {"running": 1, "blocked": 59})
    for key in ["other", "another", None] * 5:
        await (await work.enqueue(key)).result(timeout=DEADLINE)
    assert states(db, "long") == {"running": 1, "blocked": 59}
    assert db.execute("select count(*) from job where state = 'r'").fetchone() == (0,)
    gate.set()
    await eventually(lambda: states(db, "long") == {})


async def test_the_key_is_a_text_or_what_a_function_makes_of_the_call(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    @hw.task(concurrency_key="always")
    async def fixed(ctx: Context) -> None: ...

    @hw.task(concurrency_key=lambda tenant, page=1: f"{tenant}-{page}")
    async def by_call(ctx: Context, tenant: str, page: int = 1) -> None: ...

    @hw.task(concurrency_key=lambda tenant, **_: tenant or None)
    async def maybe(tenant: str, page: int = 1) -> None: ...

    async def key_of(job: Any) -> Any:
        return (await job.status()).keys

    once = {"concurrency": "always", "limit": 1}
    assert await key_of(await fixed.enqueue()) == once
    assert (await key_of(await by_call.enqueue("acme")))["concurrency"] == "acme-1"
    assert (await key_of(await by_call.enqueue("acme", page=7)))["concurrency"] == "acme-7"
    assert await key_of(await maybe.enqueue("")) is None
    assert (await (await maybe.enqueue("")).status()).state == "ready"
    given = maybe.using(concurrency_key=Key("mine", limit=4))
    assert await key_of(await given.enqueue("acme")) == {"concurrency": "mine", "limit": 4}


async def test_what_can_be_no_key_is_refused_before_the_database(hw: Headway) -> None:
    @hw.task(concurrency_key=lambda key: key)
    async def work(key: Any) -> None: ...

    for bad in (7, "", "x" * 201, "a\nb", "a\0b"):
        with pytest.raises(InvalidInput):
            await work.enqueue(bad)
    for limit in (0, -1, True, 40_000):
        with pytest.raises(ConfigError):
            Key("k", limit=limit)
    with pytest.raises(ConfigError):
        Key("k", limit=2, ordered=True)


async def test_a_delayed_job_joins_the_line_when_it_is_due(
    hw: Headway, start, db: psycopg.Connection[Any]
) -> None:
    gate = asyncio.Event()

    @hw.task(concurrency_key="k")
    async def work() -> None:
        await gate.wait()

    later = await work.using(delay="300ms").enqueue()
    assert (await later.status()).state == "scheduled"
    first = await work.enqueue()
    start(poll="1h")
    await eventually(lambda: states(db, "k") == {"running": 1, "blocked": 1})
    gate.set()
    for job in (first, later):
        await job.result(timeout=DEADLINE)


async def test_in_a_line_without_an_order_priority_goes_first(
    hw: Headway, start, told: Told, db: psycopg.Connection[Any]
) -> None:
    gate = asyncio.Event()

    @hw.task(concurrency_key="k")
    async def work(n: int) -> None:
        async with told.running("k", n):
            await gate.wait()

    start(poll="1h")
    first = await work.enqueue(0)
    await eventually(lambda: told.began() == [0])
    jobs = [await work.using(priority=priority).enqueue(priority) for priority in (1, 3, 2)]
    gate.set()
    for job in (first, *jobs):
        await job.result(timeout=DEADLINE)
    assert told.began() == [0, 3, 2, 1]


@pytest.mark.parametrize("notify", [True, False])
async def test_run_until_idle_runs_whole_lines(
    dsn: str, schema: str, told: Told, notify: bool
) -> None:
    hw = Headway(dsn, schema=schema, notify=notify)

    @hw.task(concurrency_key=Key(lambda key, **_: key, ordered=True))
    async def work(key: str, n: int) -> None:
        async with told.running(key, n):
            pass

    await work.enqueue_many({"key": key, "n": n} for n in range(5) for key in "ab")
    report = await hw.run_until_idle()
    await hw.close()
    assert report.settled == {"succeed": 10}
    assert told.began("a") == told.began("b") == list(range(5))


async def test_run_until_idle_does_not_wait_for_room_that_another_worker_has(
    hw: Headway, start, db: psycopg.Connection[Any]
) -> None:
    gate = asyncio.Event()

    @hw.task(concurrency_key="k")
    async def work() -> None:
        await gate.wait()

    @hw.task
    async def plain() -> None: ...

    start(queues={"elsewhere": 1}, poll="1h")
    holder = await work.using(queue="elsewhere").enqueue()
    await eventually(lambda: states(db, "k") == {"running": 1})
    await work.enqueue()
    await plain.enqueue()
    assert (await hw.run_until_idle(queues={"default": 1})).total == 1
    assert states(db, "k") == {"running": 1, "blocked": 1}
    gate.set()
    await holder.result(timeout=DEADLINE)


async def test_a_key_holds_across_tasks_and_queues(hw: Headway, start, told: Told) -> None:
    @hw.task(concurrency_key="k", queue="one")
    async def one(n: int) -> None:
        async with told.running("k", n):
            await asyncio.sleep(0)

    @hw.task(concurrency_key="k", queue="two")
    async def two(n: int) -> None:
        async with told.running("k", n):
            await asyncio.sleep(0)

    jobs = [await task.enqueue(n) for n in range(8) for task in (one, two)]
    start()
    start()
    for job in jobs:
        await job.result(timeout=DEADLINE)
    assert told.most_at_once() == {"k": 1}
