"""While a worker has more to claim than slots, it hands room on beside its exchange.

What lets in the next of a line waits for the key's lock, which these tests hold. Polls are an hour away.
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
from headway.engine.handover import Freed
from headway.store.rows import Lane
from headway.store.statement import text
from tests.keys.tasks import register
from tests.keys.told import Told
from tests.support import DEADLINE, eventually

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
    """A worker with two slots that has the first of some keys, and fifty jobs without one behind them."""

    def __init__(self, hw: Headway) -> None:
        self._gates = defaultdict[str, asyncio.Event](asyncio.Event)

        @hw.task
        async def work(gate: str) -> None:
            await self._gates[gate].wait()

        self._work = work

    async def begin(
        self, db: psycopg.Connection[Any], locks: Locks, start: Any, keys: str
    ) -> list[Job[None]]:
        """Returns when only those are left who are next of these keys, and the locks are in their way."""
        running = "select count(*) from job where state = 'x'"
        keyed = [
            await self._work.using(concurrency_key=key).enqueue_many([{"gate": key}] * 2)
            for key in keys
        ]
        self.running = start(**HOUR, concurrency=2)
        await eventually(lambda: db.execute(running).fetchone() == (len(keys),))
        plain = await self._work.enqueue_many([{"gate": "plain"}] * 50)
        await eventually(lambda: db.execute(running).fetchone() == (2,))
        locks.take(*keys)
        for key, (first, _) in zip(keys, keyed, strict=True):
            self._gates[key].set()
            await first.result(timeout=DEADLINE)
            await eventually(lambda: db.execute(WAITING).fetchone())
        self._gates["plain"].set()
        for job in plain:
            await job.result(timeout=DEADLINE)
        return [next_one for _, next_one in keyed]


async def test_the_rest_goes_on_while_the_next_of_a_line_is_let_in(
    hw: Headway, start, db: psycopg.Connection[Any], locks: Locks
) -> None:
    (job,) = await Busy(hw).begin(db, locks, start, "k")
    assert (await job.status()).state == "blocked"
    locks.free()
    await job.result(timeout=DEADLINE)


async def test_a_connection_that_is_lost_while_it_hands_on_loses_no_room(
    hw: Headway, start, db: psycopg.Connection[Any], locks: Locks
) -> None:
    (job,) = await Busy(hw).begin(db, locks, start, "k")
    assert db.execute(f"select pg_terminate_backend(pid) from ({WAITING}) w").fetchone() == (True,)
    locks.free()
    await job.result(timeout=DEADLINE)


async def test_a_worker_that_stops_hands_on_what_it_had_not_come_to(
    hw: Headway, start, db: psycopg.Connection[Any], locks: Locks
) -> None:
    """The room of one key while that of the other was being handed on."""
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


async def test_room_that_a_killed_worker_had_not_handed_on_is_found(
    hw: Headway, told: Told, spawn_worker, db: psycopg.Connection[Any], locks: Locks
) -> None:
    register(hw)
    keys = [f"k{n}" for n in range(40)]
    jobs = await hw.tasks["work"].enqueue_many(
        {"key": key, "n": n} for n in range(5) for key in keys
    )
    killed = spawn_worker("tests.keys.tasks:hw", "--concurrency", "4")
    await eventually(told.began, within=60)
    locks.take(*keys)
    await eventually(lambda: db.execute(WAITING).fetchone(), within=60)
    killed.kill()
    # The server would go through with what it was sent, though nobody waits for the answer.
    db.execute(f"select pg_terminate_backend(pid) from ({WAITING}) w")
    locks.free()
    for leased in ("worker", "duty"):
        db.execute(f"update {leased} set expires_at = now()")
    spawn_worker("tests.keys.tasks:hw", "--concurrency", "4")
    for job in jobs:
        await job.result(timeout=60)


def test_keys_are_taken_in_the_order_in_which_they_were_freed() -> None:
    freed = Freed()
    freed.add(["b", "a"], [Lane("default", 0)])
    freed.add(["c", "b"], [Lane("mail", 1)])
    first = freed.take(2)
    assert (list(first.keys), first.lanes) == (["b", "a"], {Lane("default", 0), Lane("mail", 1)})
    assert (list(freed.keys), freed.lanes) == (["c"], set())
    freed.put_back(first)
    rest = freed.take()
    assert (list(rest.keys), rest.lanes) == (["b", "a", "c"], first.lanes)
    assert not freed.keys
