"""Strangers: operators with open transactions, hostile notifications, poisoned rows.

None of it may hold up more than the one job that it is about. Each takes as long as `seconds` says, or
as chance does.
"""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg

from tests.soak.world import SCHEMA, World

_RUNNING = "select id from job where state = 'x' and task = any (%s) order by random() limit %s"
_TARGETS = ["linger", "echo", "shared", "thread"]
"""Tasks whose running jobs operators touch: not the pulses, which tell whether others are held up."""


def _seconds(chance: random.Random) -> float:
    return chance.choice((chance.random(), chance.random() * 10))


async def _running(conn: psycopg.AsyncConnection[Any], most: int) -> list[UUID]:
    rows = await (await conn.execute(_RUNNING, (_TARGETS, most))).fetchall()
    return [row[0] for row in rows]


async def hold(world: World, chance: random.Random, seconds: float | None = None) -> None:
    """Ask running jobs to stop in a transaction that stays open; then commit, or roll back."""
    seconds, commits = seconds or _seconds(chance), chance.random() < 0.5
    async with world.connection(autocommit=False) as conn:
        ids = await _running(conn, 3)
        world.ledger.fault("hold", f"cancel of {len(ids)} jobs for {seconds:.1f} s")
        if commits:
            world.ledger.cancels.update(ids)
        for job_id in sorted(ids):
            await conn.execute("select cancel(%s)", (job_id,))
        await asyncio.sleep(seconds)
        await (conn.commit() if commits else conn.rollback())


async def lock(world: World, chance: random.Random, seconds: float | None = None) -> None:
    """Lock rows of running jobs and look at them for long."""
    seconds = seconds or _seconds(chance)
    async with world.connection(autocommit=False) as conn:
        world.ledger.fault("lock", f"5 running jobs for {seconds:.1f} s")
        await conn.execute(
            "select * from job where state = 'x' and task = any (%s) limit 5 for update skip locked",
            (_TARGETS,),
        )
        await asyncio.sleep(seconds)
        await conn.rollback()


async def limit(world: World, chance: random.Random, seconds: float | None = None) -> None:
    """Set limits in a transaction that stays open."""
    seconds, commits = seconds or _seconds(chance), chance.random() < 0.7
    room = chance.randrange(1, 4)
    async with world.connection(autocommit=False) as conn:
        world.ledger.fault("limit", f"{room} for {seconds:.1f} s")
        await conn.execute("set local lock_timeout = '10s'")
        await conn.execute("select set_limit(task => 'narrow', concurrency => %s)", (room,))
        await conn.execute("select set_limit('slow', concurrency => %s)", (room * 10,))
        await asyncio.sleep(seconds)
        await (conn.commit() if commits else conn.rollback())
    await asyncio.sleep(chance.random() * 3)
    async with world.connection() as conn:
        await conn.execute("select reset_limit(task => 'narrow'), reset_limit('slow')")


async def halt(world: World, chance: random.Random, seconds: float | None = None) -> None:
    """Pause a queue in a transaction that stays open, and resume it later."""
    seconds, queue = seconds or _seconds(chance), chance.choice(("slow", "keyed", "money"))
    async with world.connection(autocommit=False) as conn:
        world.ledger.fault("halt", f"queue {queue} for {seconds:.1f} s")
        await conn.execute("set local lock_timeout = '10s'")
        await conn.execute("select pause(%s, 'soak')", (queue,))
        await asyncio.sleep(seconds)
        await (conn.commit() if chance.random() < 0.5 else conn.rollback())
    await asyncio.sleep(chance.random() * 3)
    async with world.connection() as conn:
        await conn.execute("select resume(%s)", (queue,))


async def drain(world: World, chance: random.Random, seconds: float | None = None) -> None:
    """Ask a worker to drain in a transaction that stays open, and think better of it."""
    seconds = seconds or _seconds(chance)
    async with world.connection(autocommit=False) as conn:
        worker = chance.choice([slot.pid for slot in world.slots])
        world.ledger.fault("drain", f"worker {worker} for {seconds:.1f} s, then a rollback")
        await conn.execute(
            "select drain(id) from worker where name like %s and expires_at > now()",
            (f"%:{worker}",),
        )
        await asyncio.sleep(seconds)
        await conn.rollback()


async def notify(world: World, chance: random.Random, seconds: float | None = None) -> None:
    """Say what is not true on the channels of the workers."""
    async with world.connection() as conn:
        some = (await _running(conn, 1) or [uuid4()])[0]
        garbage = "".join(chance.choices(string.printable, k=chance.randrange(1, 7999)))
        payloads = [
            "ready 99999 default", "ready -99999 fast", "ready ² fast", "ready 1,2,x, fast",
            f"ready {'9' * 5000} fast", "ready 0 " + "q" * 7000, "drain", "drain 1", "drain ²",
            f"cancel {some}", "cancel all", "cancel", "room", "room " + "k" * 7000, "open x y",
            "open task " + "t" * 7000, "control", "later", "blocked", "schedule", "x" * 7999,
            garbage, "failed", str(some), "",
        ]  # fmt: skip
        said = chance.sample(payloads, 12)
        world.ledger.fault("notify", ", ".join(repr(words[:20]) for words in said))
        for words in said:
            await asyncio.sleep((seconds or 0) / len(said))
            channel = f"{SCHEMA}_{chance.choice(('work', 'work', 'done'))}"
            await conn.execute("select pg_notify(%s, %s)", (channel, words))


async def poison(world: World, chance: random.Random, seconds: float | None = None) -> None:
    """Make jobs that cannot run: an input that does not fit, a result that cannot be stored."""
    ledger = world.ledger
    kinds = {
        "input": ("echo", '{"n": "not a number"}', "InvalidInput"),
        "missing": ("pay", "{}", "InvalidInput"),
        "extra": ("thread", '{"n": 1, "x": [[[[[[]]]]]]}', "InvalidInput"),
        "result": ("refused", '{"n": 0}', "InvalidResult"),
        "batch": ("gather", '{"numbers": "many"}', "InvalidInput"),
        "step": ("order", '{"n": 1, "shop": 7}', "InvalidInput"),
        "unknown": ("nobody knows this", "{}", ""),
    }
    kind = chance.choice(list(kinds))
    task, given, error = kinds[kind]
    ledger.fault("poison", kind)
    async with world.connection() as conn:
        job_id = uuid4()
        (ledger.unknown.add if kind == "unknown" else ledger.late.discard)(job_id)
        row = await (
            await conn.execute("select enqueue(%s, %s::jsonb, id => %s)", (task, given, job_id))
        ).fetchone()
        assert row == (job_id,)
    if kind != "unknown":
        ledger.poisoned[job_id] = error
        ledger.made[job_id] = task


FAULTS: dict[str, Callable[..., Awaitable[None]]] = {
    "hold": hold,
    "lock": lock,
    "limit": limit,
    "halt": halt,
    "drain": drain,
    "notify": notify,
    "poison": poison,
}
