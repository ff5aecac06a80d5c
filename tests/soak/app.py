"""The app under test: tasks of every kind. Workers import it, and so do the producers.

The environment has the schema ($TEST_SCHEMA), the journal ($SOAK_JOURNAL) and the version of the code
($SOAK_VERSION). From version 1 on the flow `order` has a step more, and odd versions do other work.

Every call has a number `n` of its own, so that a job which was made twice shows.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from uuid import UUID

import msgspec

from headway import Batch, Context, Headway, Key, Limit, Next, Retry, Schedule, Snooze, Unique
from tests.soak.journal import note, recorded

VERSION = int(os.environ.get("SOAK_VERSION", "0"))
SCHEMA = os.environ.get("TEST_SCHEMA", "headway")
QUEUES = ("default", "fast", "slow", "money", "keyed", "hasty", "unkept", "times")

PATIENT = Retry(max_attempts=60, backoff="constant", base="200ms", jitter=0.5)
"""More attempts than a soak takes: what ends as failed was failed on purpose."""
SHARED_ROOM = 2
NARROW_ROOM = 3
TENANT_ROOM, TENANT_RATE, TENANT_BURST = 2, 10, 3
STEPS_WITH_EFFECT = {"order": ("reserve", "charge")}
LAST_STEP = {"order": "ship", "parcel": "send"}

_EFFECT = f'insert into "{SCHEMA}".effect (job_id, step) values (%s, %s)'

hw = Headway(schema=SCHEMA)


async def _work(ctx: Context, seconds: float) -> None:
    """Odd versions of the code report what they do."""
    if VERSION % 2:
        for part in range(4):
            await ctx.progress(25 * part, "at it")
            await asyncio.sleep(seconds / 4)
    else:
        await asyncio.sleep(seconds)


# -- by executor ----------------------------------------------------------------------------------


@hw.task(queue="fast", retry=PATIENT)
async def echo(ctx: Context, n: int, seconds: float = 0) -> int:
    with recorded(ctx):
        await ctx.progress(1, "begins")  # written while many of these end
        await _work(ctx, seconds)
    return n


@hw.task(queue="slow", retry=PATIENT)
def thread(ctx: Context, n: int) -> int:
    with recorded(ctx):
        for part in range(random.randrange(10)):
            time.sleep(0.01)
            ctx.progress_sync(part, "at it")
    return n


@hw.task(queue="slow", retry=PATIENT, executor="process")
def crunch(ctx: Context, n: int) -> int:
    with recorded(ctx):
        time.sleep(random.random() / 10)
    return n


@hw.task(queue="slow", retry=PATIENT)
async def linger(ctx: Context, n: int, seconds: float) -> int:
    """Long enough to be found running by an operator."""
    with recorded(ctx):
        await _work(ctx, seconds)
    return n


@hw.task(queue="times", retry=PATIENT)
async def pulse(ctx: Context, n: int) -> int:
    """Shows that one worker is alive: each worker has a queue of these to itself."""
    with recorded(ctx):
        return n


# -- in a transaction -----------------------------------------------------------------------------


@hw.task(queue="money", retry=PATIENT, transaction=True)
async def pay(ctx: Context, n: int) -> int:
    with recorded(ctx):
        await ctx.conn.execute(_EFFECT, (ctx.job_id, ""))
        await asyncio.sleep(random.random() / 20)
    return n


@hw.task(queue="money", retry=PATIENT, transaction=True)
def pay_in_thread(ctx: Context, n: int) -> int:
    with recorded(ctx):
        ctx.conn.execute(_EFFECT, (ctx.job_id, ""))
        if random.random() < 0.1:
            raise RuntimeError("a bad moment")
    return n


@hw.task(queue="unkept", retry=PATIENT, keep="none")
async def unkept(ctx: Context, n: int) -> None:
    with recorded(ctx, key=str(n)):
        await _work(ctx, random.random() / 20)


@hw.task(queue="unkept", retry=PATIENT, keep="none", transaction=True)
async def unkept_payment(ctx: Context, n: int) -> None:
    with recorded(ctx, key=str(n)):
        await ctx.conn.execute(_EFFECT, (ctx.job_id, ""))


# -- flows ----------------------------------------------------------------------------------------


@hw.task(queue="fast", retry=PATIENT)
async def receipt(parent: UUID, step: str) -> None:
    """The child of a step: there if, and only if, that step was done."""


order = hw.flow("order", queue="money", retry=PATIENT)


@order.step(transaction=True)
async def reserve(ctx: Context, n: int, shop: str) -> Next:
    with recorded(ctx):
        await ctx.conn.execute(_EFFECT, (ctx.job_id, ctx.step))
        await ctx.enqueue(receipt, ctx.job_id, ctx.step)
    return charge.next(n, shop)


@order.step(transaction=True, concurrency_key=Key(lambda shop, **_: shop, limit=SHARED_ROOM))
def charge(ctx: Context, n: int, shop: str) -> Next:
    with recorded(ctx, key=shop):
        ctx.conn.execute(_EFFECT, (ctx.job_id, ctx.step))
        ctx.enqueue_sync(receipt, ctx.job_id, ctx.step)
        if random.random() < 0.1:
            raise RuntimeError("a bad moment")
        time.sleep(random.random() / 20)
    return (audit if VERSION else ship).next(n, shop)


if VERSION:

    @order.step(executor="process")
    def audit(ctx: Context, n: int, shop: str) -> Next:
        with recorded(ctx):
            return ship.next(n, shop)


@order.step(concurrency_key=Key(lambda shop, **_: f"{shop} ships", ordered=True))
async def ship(ctx: Context, n: int, shop: str) -> int:
    with recorded(ctx, key=f"{shop} ships"):
        await ctx.enqueue(receipt, ctx.job_id, ctx.step)
        await _work(ctx, random.random() / 20)
    return n


parcel = hw.flow("parcel", queue="slow", retry=PATIENT)


@parcel.step
async def pack(ctx: Context, n: int) -> Next:
    with recorded(ctx):
        return weigh.after("100ms", n) if n % 2 else weigh.next(n)


@parcel.step
def weigh(ctx: Context, n: int) -> Next:
    with recorded(ctx):
        if random.random() < 0.2:
            raise RuntimeError("a bad moment")
    return send.next(n)


@parcel.step
async def send(ctx: Context, n: int) -> int:
    with recorded(ctx):
        return n


# -- keys and limits ------------------------------------------------------------------------------


@hw.task(
    queue="keyed", retry=PATIENT, concurrency_key=Key(lambda shop, **_: shop, limit=SHARED_ROOM)
)
async def shared(ctx: Context, n: int, shop: str) -> int:
    with recorded(ctx, key=shop):
        await _work(ctx, random.random() / 10)
    return n


@hw.task(
    queue="keyed",
    retry=PATIENT,
    concurrency_key=Key(lambda account, **_: f"account-{account}", ordered=True),
)
async def book(ctx: Context, n: int, account: int) -> int:
    with recorded(ctx, key=str(account)):
        await _work(ctx, random.random() / 20)
        if random.random() < 0.05:
            raise RuntimeError("a bad moment")
    return n


@hw.task(queue="keyed", retry=PATIENT, limit=Limit(concurrency=NARROW_ROOM))
def narrow(ctx: Context, n: int) -> int:
    with recorded(ctx):
        time.sleep(random.random() / 10)
    return n


@hw.task(
    queue="keyed",
    retry=PATIENT,
    limit=Limit(
        key=lambda tenant, **_: tenant,
        concurrency=TENANT_ROOM,
        rate=f"{TENANT_RATE}/s",
        burst=TENANT_BURST,
    ),
)
async def tenant(ctx: Context, n: int, tenant: str) -> int:
    with recorded(ctx, key=tenant):
        await _work(ctx, random.random() / 10)
    return n


@hw.task(queue="keyed", retry=PATIENT, unique=lambda user, **_: user)
async def once(ctx: Context, n: int, user: str) -> int:
    with recorded(ctx, key=user):
        await _work(ctx, random.random() / 5)
    return n


@hw.task(queue="keyed", retry=PATIENT, unique=Unique(lambda user, **_: user, period="1d"))
async def daily(ctx: Context, n: int, user: str) -> int:
    with recorded(ctx, key=user):
        return n


@hw.task(queue="fast", retry=PATIENT, batch=Batch(size=8, wait="50ms"))
async def gather(contexts: list[Context], numbers: list[int]) -> list[int | Exception]:
    await asyncio.sleep(random.random() / 20)
    return [RuntimeError("a bad moment") if random.random() < 0.05 else n for n in numbers]


# -- time -----------------------------------------------------------------------------------------


@hw.task(
    queue="times",
    retry=PATIENT,
    schedule=[
        Schedule(
            "@every 1s", name="second", input={"of": "second"}, catch_up="all", max_catch_up=10_000
        ),
        Schedule("@every 2s", name="lonely", input={"of": "lonely"}, overlap="skip"),
        Schedule("@every 3s", name="queued", input={"of": "queued"}, overlap="queue"),
    ],
)
async def tick(ctx: Context, of: str) -> None:
    with recorded(ctx, key=of):
        await _work(ctx, random.random())


@hw.task(queue="fast", retry=PATIENT)
async def nap(ctx: Context, n: int) -> int:
    with recorded(ctx):
        if random.random() < 0.5:
            raise Snooze("300ms")
    return n


@hw.task(queue="hasty", retry=PATIENT, ttl="700ms")
async def hasty(ctx: Context, n: int) -> int:
    with recorded(ctx):
        return n


# -- what goes wrong ------------------------------------------------------------------------------


@hw.task(queue="fast", retry=PATIENT)
async def flaky(ctx: Context, n: int, fails: int) -> int:
    with recorded(ctx):
        if ctx.attempt <= fails:
            raise RuntimeError("not yet")
    return n


class Doomed(Exception):
    """The error of a job that always fails."""


@hw.task(queue="fast", retry=Retry(max_attempts=2, backoff="constant", base="100ms"))
async def doomed(ctx: Context, n: int) -> None:
    with recorded(ctx):
        raise Doomed(n)


@hw.task(queue="fast", retry=PATIENT)
async def refused(ctx: Context, n: int) -> msgspec.Raw:
    """Return a number that PostgreSQL cannot store."""
    with recorded(ctx):
        return msgspec.Raw(b"1e200000")


@hw.task(queue="slow", retry=Retry(max_attempts=3, backoff="constant", base="200ms"))
async def killer(ctx: Context, n: int, how: str) -> None:
    """End the whole process."""
    await asyncio.sleep(0.2)
    note("kills")
    if how == "exit":
        os._exit(9)
    os.kill(os.getpid(), signal.SIGKILL)


@hw.task(queue="slow", retry=Retry(max_attempts=3, backoff="constant", base="200ms"))
async def bystander(ctx: Context, n: int) -> int:
    """Run in parallel with a killer, with as few attempts."""
    with recorded(ctx):
        await asyncio.sleep(0.5)
    return n
