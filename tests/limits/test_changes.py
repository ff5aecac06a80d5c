"""Limits that change while everything runs: from the next claim on, with nothing but a notification."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway, Limit
from headway.engine.maintenance import services
from headway.engine.maintenance.sweeps import sweeps
from tests.limits.record import Record
from tests.support import Running, eventually

Start = Callable[..., Running]


class Scene:
    """Jobs that run until the test lets them go, one by one or all."""

    def __init__(self, hw: Headway, limit: Limit | None = None) -> None:
        self._let_go = asyncio.Semaphore(0)

        @hw.task(queue="q", limit=limit)
        async def work(n: int = 0) -> None:
            await self._let_go.acquire()

        self.work = work

    def let_go(self, count: int) -> None:
        for _ in range(count):
            self._let_go.release()

    async def enqueue(self, count: int) -> None:
        await self.work.enqueue_many({"n": n} for n in range(count))


OF = [{"queue": "q"}, {"task": "work"}]


@pytest.mark.parametrize("of", OF, ids=["queue", "task"])
async def test_a_limit_is_raised_lowered_lifted_and_shut_while_jobs_run(
    hw: Headway, start: Start, record: Record, of: dict[str, str]
) -> None:
    """There is no poll for an hour."""
    scene = Scene(hw)

    async def runs(count: int) -> None:
        await eventually(lambda: record.running() == count)

    await hw.controls.limit(**of, concurrency=2)
    for _ in range(2):
        start(poll="1h", concurrency=50)
    await scene.enqueue(60)
    await runs(2)
    await hw.controls.limit(**of, concurrency=6)
    await runs(6)
    await hw.controls.limit(**of, concurrency=3)
    scene.let_go(2)
    await eventually(lambda: record.left() == 58)
    scene.let_go(2)
    await eventually(lambda: record.left() == 56)
    await runs(3)
    await hw.controls.limit(**of, concurrency=0)
    scene.let_go(3)
    await eventually(lambda: record.left() == 53)
    await hw.controls.limit(**of, concurrency=1)
    await runs(1)
    await hw.controls.limit(**of)
    await runs(53)
    assert record.over() == []
    scene.let_go(60)
    await eventually(lambda: record.left() == 0)
    record.assert_each_ended_once(60)


async def test_a_limit_in_code_yields_to_a_person_and_comes_back(
    hw: Headway, start: Start, record: Record
) -> None:
    scene = Scene(hw, Limit(concurrency=2))
    start(poll="1h")
    await scene.enqueue(40)
    await eventually(lambda: record.running() == 2)
    await hw.controls.limit(task="work", concurrency=4, actor="ada")
    await eventually(lambda: record.running() == 4)
    # A worker that starts with the same code changes nothing of that.
    start(poll="1h")
    await eventually(lambda: hw.controls.list_sync()[0].changed_by == "ada")
    await hw.controls.limit(task="work")
    await eventually(lambda: record.running() == 40)
    assert await hw.controls.reset(task="work")
    assert not await hw.controls.reset(task="work")
    await scene.enqueue(10)
    scene.let_go(38)
    await eventually(lambda: record.left() == 12)
    assert record.running() == 2, "what ran when it was taken back counts"
    scene.let_go(12)
    await eventually(lambda: record.left() == 0)
    assert record.over() == []


async def test_the_next_version_of_the_code_brings_its_limit(
    dsn: str, schema: str, hw: Headway, start: Start, record: Record
) -> None:
    """Version two runs in parallel with version one, whose jobs count."""
    scene = Scene(hw)
    start(poll="1h", concurrency=3)
    await scene.enqueue(10)
    await eventually(lambda: record.running() == 3)
    newer = Headway(dsn, schema=schema)
    after = Scene(newer, Limit(concurrency=4))
    second = Running(newer.worker(poll="1h", grace="1s"))
    try:
        await eventually(lambda: record.running() == 4)
        scene.let_go(10)
        after.let_go(10)
        await eventually(lambda: record.left() == 0)
    finally:
        await second.stop()
        await newer.close()
    assert record.over() == []


async def test_each_key_gets_more_room_while_its_line_waits(
    hw: Headway, start: Start, record: Record
) -> None:
    scene = Scene(hw, Limit(key=lambda n: str(n % 2), concurrency=1))
    start(poll="1h")
    await scene.enqueue(20)
    await eventually(lambda: record.running() == 2)
    await hw.controls.limit(keys_of="work", concurrency=3)
    await eventually(lambda: record.running() == 6)
    await hw.controls.limit(keys_of="work", concurrency=2)
    scene.let_go(4)
    await eventually(lambda: record.left() == 16)
    scene.let_go(16)
    await eventually(lambda: record.left() == 0)
    assert max(record.most_at_once("key").values()) == 3


async def test_a_faster_rate_holds_at_once(hw: Headway, start: Start, record: Record) -> None:
    """The next token of the slower one was a day away."""
    scene = Scene(hw, Limit(key=lambda n: "all", rate="1/d"))
    start(poll="1h")
    await hw.queues.limit("q", rate="1/d")
    await scene.enqueue(9)
    scene.let_go(9)
    await eventually(lambda: record.left() == 8)
    await hw.controls.limit(keys_of="work", rate="1000/s")
    await hw.queues.limit("q", rate="1000/s", burst=5)
    await eventually(lambda: record.left() == 0)


async def test_changing_limits_again_and_again_loses_nothing(
    hw: Headway, start: Start, record: Record, db: psycopg.Connection[Any]
) -> None:
    """A change of limits and a settlement meet on rows of running jobs, and neither fails."""

    @hw.task(queue="q")
    async def work() -> None: ...

    for _ in range(2):
        start(poll="1h")
    await work.enqueue_many([{}] * 1_500)
    changes = 0
    while record.left():
        most = (40, 3, None, 0, 12)[changes % 5]
        await hw.controls.limit(queue="q", concurrency=most)
        await asyncio.sleep(0.001)
        changes += 1
    assert changes >= 5
    record.assert_each_ended_once(1_500)


@pytest.mark.parametrize("of", OF, ids=["queue", "task"])
async def test_what_was_being_claimed_when_the_first_limit_was_set_counts_at_once(
    hw: Headway,
    start: Start,
    db: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    of: dict[str, str],
) -> None:
    """Neither the claim nor the change of the limit sees the other. No sweep is waited for, and every
    slot is taken."""
    marks = "limits"
    monkeypatch.setattr(
        services, "sweeps", lambda *given: [one for one in sweeps(*given) if one.name != marks]
    )
    db.execute(
        """create function hold() returns trigger language plpgsql as
             $$ begin perform pg_advisory_xact_lock_shared(7); return new; end $$;
           create trigger hold before update on job for each row
             when (new.state = 'x' and old.state = 'r') execute function hold()"""
    )
    scene = Scene(hw)
    with psycopg.connect(hw.dsn, autocommit=True) as gate:
        gate.execute("select pg_advisory_lock(7)")
        start(poll="1h", concurrency=2)
        await scene.enqueue(3)
        waits = """select count(*) from pg_locks l join pg_database d on d.oid = l.database
                   where datname = current_database() and not granted and objid = 7"""
        await eventually(lambda: db.execute(waits).fetchone() == (1,))
        await hw.controls.limit(**of, concurrency=1)
    counted = "select count(*) from job where state = 'x' and limited"
    await eventually(lambda: db.execute(counted).fetchone() == (2,))
    scene.let_go(3)
    await eventually(lambda: db.execute("select count(*) from job").fetchone() == (0,))


async def test_the_status_of_a_job_shows_the_limit_in_force(hw: Headway) -> None:
    @hw.task(limit=Limit(key=lambda tenant: tenant, concurrency=3))
    async def sync(tenant: str) -> None: ...

    @hw.task(limit=Limit(key=lambda tenant: tenant, rate="5/s"))
    async def ping(tenant: str) -> None: ...

    await hw.run_until_idle()  # a worker declares the limits
    job, rated = await sync.enqueue("acme"), await ping.enqueue("acme")
    assert (await job.status()).keys == {"concurrency": "sync/acme", "limit": 3}
    assert (await rated.status()).keys == {"concurrency": "ping/acme"}
    await hw.controls.limit(keys_of="sync", concurrency=7)
    assert (await job.status()).keys == {"concurrency": "sync/acme", "limit": 7}
