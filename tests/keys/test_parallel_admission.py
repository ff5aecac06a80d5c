"""While a worker has more to claim than slots, it admits in parallel with its job loop.

Admitting the next of a line waits for the key's lock, which these tests hold. Polls are an hour away.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headway import Headway, Job
from headway.core import codec
from headway.store.connections.connect import Target
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statement import text
from tests.keys.tasks import register
from tests.keys.told import Told
from tests.support import DEADLINE, Running, eventually

HOUR: dict[str, Any] = {"poll": "1h", "poll_alone": "1h"}
WAITING = """
    select pid from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"""


class Locks:
    """Holds the locks of keys."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._conn = psycopg.connect(dsn)
        self._sql = text("writes/lock_keys", schema)

    def take(self, *keys: str) -> None:
        self._conn.execute(self._sql, {"keys": codec.encode_document(keys)})

    def free(self) -> None:
        self._conn.rollback()

    def close(self) -> None:
        self._conn.close()


@pytest.fixture
def locks(dsn: str, schema: str) -> Iterator[Locks]:
    locks = Locks(dsn, schema)
    yield locks
    locks.close()


class Busy:
    """A worker with two slots, and jobs that each wait for a gate."""

    def __init__(self, hw: Headway) -> None:
        self._gates = defaultdict[str, asyncio.Event](asyncio.Event)

        @hw.task
        async def work(gate: str) -> None:
            await self._gates[gate].wait()

        self.work = work

    async def enqueue(self, keys: str) -> list[list[Job[None]]]:
        """Two of each key, whose gate bears its name."""
        return [
            await self.work.using(concurrency_key=key).enqueue_many([{"gate": key}] * 2)
            for key in keys
        ]

    def start(self, start: Any) -> Running:
        self.running: Running = start(**HOUR, concurrency=2)
        return self.running

    async def until_running(self, db: psycopg.Connection[Any], count: int) -> None:
        running = "select count(*) from job where state = 'x'"
        await eventually(lambda: db.execute(running).fetchone() == (count,))

    async def end(self, gate: str, *jobs: Job[None]) -> None:
        self._gates[gate].set()
        for job in jobs:
            await job.result(timeout=DEADLINE)

    async def begin(
        self, db: psycopg.Connection[Any], locks: Locks, start: Any, keys: str
    ) -> list[Job[None]]:
        """Return when only the next jobs of these keys are left, and the locks are in their way."""
        keyed = await self.enqueue(keys)
        self.start(start)
        await self.until_running(db, len(keys))
        plain = await self.work.enqueue_many([{"gate": "plain"}] * 50)
        await self.until_running(db, 2)
        locks.take(*keys)
        for key, (first, _) in zip(keys, keyed, strict=True):
            await self.end(key, first)
            await eventually(lambda: db.execute(WAITING).fetchone())
        await self.end("plain", *plain)
        return [next_one for _, next_one in keyed]


async def test_other_jobs_go_on_while_the_next_of_a_line_is_admitted(
    hw: Headway, start, db: psycopg.Connection[Any], locks: Locks
) -> None:
    (job,) = await Busy(hw).begin(db, locks, start, "k")
    assert (await job.status()).state == "blocked"
    locks.free()
    await job.result(timeout=DEADLINE)


async def test_keys_are_admitted_under_in_the_order_in_which_they_were_freed(
    hw: Headway, start, db: psycopg.Connection[Any], locks: Locks
) -> None:
    """There is nothing more to claim when the other key is freed; it still comes after the first."""
    busy = Busy(hw)
    first, second = await busy.enqueue("km")
    busy.start(start)
    await busy.until_running(db, 2)
    plain = await busy.work.enqueue(gate="plain")
    locks.take("k")
    await busy.end("k", first[0])
    await eventually(lambda: db.execute(WAITING).fetchone())
    await busy.end("plain", plain)
    await busy.end("m", second[0])
    assert (await second[1].status()).state == "blocked"
    locks.free()
    for job in (first[1], second[1]):
        await job.result(timeout=DEADLINE)


async def test_a_connection_that_is_lost_while_admitting_loses_no_room(
    hw: Headway, start, db: psycopg.Connection[Any], locks: Locks
) -> None:
    (job,) = await Busy(hw).begin(db, locks, start, "k")
    assert db.execute(f"select pg_terminate_backend(pid) from ({WAITING}) w").fetchone() == (True,)
    locks.free()
    await job.result(timeout=DEADLINE)


async def test_the_job_loop_admits_if_the_parallel_admitter_cannot(
    hw: Headway, start, db: psycopg.Connection[Any], schema: str
) -> None:
    busy = Busy(hw)
    lines = await busy.enqueue("km")
    refused = EngineConnection(Target("host=127.0.0.1 port=1 dbname=nowhere", schema))
    keys = busy.start(start).worker._claiming.keys
    await busy.until_running(db, 2)
    keys.connection = refused
    plain = await busy.work.enqueue_many([{"gate": "plain"}] * 20)
    for key, (first, _) in zip("km", lines, strict=True):
        await busy.end(key, first)
    await busy.end("plain", *plain)
    for _, next_one in lines:
        await next_one.result(timeout=DEADLINE)


async def test_a_worker_that_stops_admits_under_its_last_keys(
    hw: Headway, start, db: psycopg.Connection[Any], locks: Locks
) -> None:
    """One key is freed while the worker admits under the other."""
    busy = Busy(hw)
    jobs = await busy.begin(db, locks, start, "km")
    busy.running.worker.stop()
    locks.free()
    await busy.running.stop()
    states = [(await job.status()).state for job in jobs]
    assert "blocked" not in states
    start(**HOUR)
    for job in jobs:
        await job.result(timeout=DEADLINE)


async def test_keys_that_a_killed_worker_freed_are_found(
    hw: Headway, told: Told, spawn_worker, db: psycopg.Connection[Any], locks: Locks
) -> None:
    register(hw)
    keys = [f"k{n}" for n in range(40)]
    jobs = await hw.tasks["work"].enqueue_many(
        {"key": key, "n": n} for n in range(5) for key in keys
    )
    killed = spawn_worker("tests.keys.tasks:hw", "--concurrency", "4")
    await eventually(told.began)
    locks.take(*keys)
    await eventually(lambda: db.execute(WAITING).fetchone())
    killed.kill()
    # The server would go through with what it was sent, though nobody waits for the answer.
    db.execute(f"select pg_terminate_backend(pid) from ({WAITING}) w")
    locks.free()
    for leased in ("worker", "leader"):
        db.execute(f"update {leased} set expires_at = now()")
    spawn_worker("tests.keys.tasks:hw", "--concurrency", "4")
    for job in jobs:
        await job.result(timeout=60)
