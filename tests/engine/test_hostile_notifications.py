"""Notifications are hints (G15): whatever anybody sends, it decides nothing and stops nobody.

Anybody who can connect to the database can send NOTIFY on the channel of the workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.core.ids import new_id
from tests.support import Running, eventually

Db = psycopg.Connection[Any]
Hears = Callable[..., Awaitable[Running]]

_LISTENS = "select listening from worker where expires_at > now()"


@pytest.fixture
async def hears(start: Callable[..., Running], db: Db) -> Hears:
    """Starts a worker and returns it once it listens; it finds nothing by polling."""

    async def hears(**options: Any) -> Running:
        running = start(**({"poll": "1h", "poll_alone": "1h"} | options))
        await eventually(lambda: running.worker._upkeep.health.listening)
        return running

    return hears


@pytest.fixture
def say(db: Db, schema: str) -> Callable[[str], None]:
    """Sends a notification, as any role could."""

    def say(payload: str) -> None:
        db.execute("select pg_notify(%s, %s)", [f"{schema}_work", payload])

    return say


_HOSTILE = [
    "ready 99999 default",
    "ready -32769 default",
    "ready ² default",
    "ready " + "9" * 5000 + " default",
    "ready 1,2,x,99999,-7 default",
    "ready 0 ",
    "ready",
    "ready 0 " + "q" * 7000,
    "open queue " + "q" * 7000,
    "open nothing default",
    "room",
    "room patient:Ada",
    "room 00000000-0000-0000-0000-000000000000",
    "cancel",
    "cancel everything",
    "drain",
    "drain ",
    "drain 999999999999999999999999",
    "drain -1",
    "later " * 1000,
    "\u0662\u0663",
    "",
]


async def test_s1_no_payload_stops_a_worker_or_condemns_a_verdict(
    hw: Headway, hears: Hears, say: Callable[[str], None], db: Db
) -> None:
    """Verdicts that travel together with a claim for a lane that cannot be: each takes effect, once."""
    running_now, go = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    @hw.task
    async def slow(n: int) -> int:
        ran.append(n)
        running_now.set()
        await go.wait()
        return n

    worker = await hears()
    first = await slow.enqueue(1)
    await asyncio.wait_for(running_now.wait(), 60)
    for payload in _HOSTILE:
        say(payload)
    go.set()
    assert await first.result(timeout="60s") == 1
    for n in (2, 3):
        assert await (await slow.enqueue(n)).result(timeout="60s") == n
    assert ran == [1, 2, 3], "each ran once"
    assert not worker.done()
    # The result is heard before the worker has read the answer to its verdict.
    await eventually(lambda: worker.worker.report.settled == {"succeed": 3})
    assert worker.worker.report.lost == 0


async def test_s1_a_claim_that_is_refused_forgets_its_lines_and_scans_again(
    hw: Headway, hears: Hears, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a lane that cannot be get through all the same, the claim fails for its data, and
    only once."""
    ran = asyncio.Event()

    @hw.task
    async def echo(n: int) -> int:
        ran.set()
        return n

    worker = (await hears()).worker
    from headway.store.rows import Lane

    worker._job_loop.hint(Lane("default", 99_999))
    job = await echo.enqueue(1)
    assert await job.result(timeout="60s") == 1
    assert not any(
        line[1] == 99_999
        for lines in worker._claiming.planner.lines.active.values()
        for line in lines
    )


async def test_s2_nobody_is_drained_by_a_notification_alone(
    hw: Headway, hears: Hears, say: Callable[[str], None], db: Db
) -> None:
    @hw.task
    async def echo(n: int) -> int:
        return n

    running = await hears()
    await eventually(lambda: running.worker.id)
    say("drain")
    say(f"drain {running.worker.id}")
    beaten_at = running.worker._upkeep.heartbeat.beaten_at
    await eventually(lambda: running.worker._upkeep.heartbeat.beaten_at != beaten_at)
    assert await (await echo.enqueue(1)).result(timeout="60s") == 1
    assert not running.done()
    assert await hw.workers.drain(running.worker.id)
    await eventually(running.done)


async def test_s3_no_job_is_cancelled_by_a_notification_alone(
    hw: Headway, hears: Hears, say: Callable[[str], None], db: Db
) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @hw.task
    async def long() -> str:
        began.set()
        await go.wait()
        return "done"

    running = await hears()
    job = await long.enqueue()
    await asyncio.wait_for(began.wait(), 60)
    asked_at = running.worker._running.stops._checked_at
    say(f"cancel {job.id}")
    await eventually(lambda: running.worker._running.stops._checked_at != asked_at)
    assert str(job.id) in running.worker._running.executor.running
    go.set()
    assert await job.result(timeout="60s") == "done"


async def test_s10_keys_are_not_broadcast(hw: Headway, dsn: str, schema: str, db: Db) -> None:
    """Whatever is done under a key, nobody who listens hears its name."""

    @hw.task(concurrency_key=lambda patient: patient)
    async def visit(patient: str) -> None: ...

    secret = "patient:Ada Lovelace"
    with psycopg.connect(dsn, autocommit=True) as stranger:
        stranger.execute(f'listen "{schema}_work"')
        stranger.execute(f'listen "{schema}_done"')
        first = await visit.enqueue(secret)
        waiting = [await visit.enqueue(secret) for _ in range(4)]
        await waiting[0].cancel()
        await visit.using(ttl="1ms").enqueue(secret)
        await hw.run_until_idle()
        assert (await first.status()).state == "succeeded"
        by_hand = await visit.enqueue(secret)
        db.execute("select sweep()")
        (claimed,) = db.execute("select id, claim from claim('default', 1)").fetchall()
        assert claimed[0] == by_hand.id
        db.execute("select complete(%s, %s)", claimed)
        await visit.enqueue(secret)
        await hw.queues.purge("default")
        db.execute("select pg_notify(%s, 'end')", [f"{schema}_done"])
        heard = []
        for note in stranger.notifies(timeout=60):
            if note.payload == "end":
                break
            heard.append(note.payload)
    assert len(heard) > 5
    assert not any("Ada" in payload for payload in heard)


async def test_g15_a_flood_of_lanes_does_not_become_a_flood_of_questions(
    hw: Headway, hears: Hears, db: Db
) -> None:
    from headway.store.rows import Lane

    @hw.task
    async def echo(n: int) -> int:
        return n

    worker = (await hears()).worker
    for priority in range(-3000, 3000):
        worker._claiming.planner.hint(Lane("default", priority))
    lines = sum(map(len, worker._claiming.planner.lines.active.values()))
    assert lines < 100
    assert await (await echo.using(priority=2999).enqueue(1)).result(timeout="60s") == 1


def test_g15_room_of_unknown_jobs_is_looked_for_once() -> None:
    """Ids are collected up to a bound; beyond it one scan of all lines is due."""
    from headway.core.clock import Clock
    from headway.engine.claiming.planner import ClaimPlanner
    from headway.engine.keys.admission import KeyAdmission
    from headway.engine.keys.admitting import Admitter

    planner = ClaimPlanner({"default": 1}, {}, ["task"], {}, 1)
    keys = KeyAdmission(None, Clock(), planner, lambda: None)  # type: ignore[arg-type]
    admitter = Admitter(keys, Clock(), 5.0)
    admitter.lead(True)
    for _ in range(1000):
        admitter.room(str(new_id()))
    assert len(admitter._freed_by) == 100
    assert admitter._scan_due
