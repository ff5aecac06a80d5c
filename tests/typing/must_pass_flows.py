"""Flows that must type-check, under pyright and mypy, both strict. Never run: see test_typing.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

from headway import (
    Call,
    Context,
    Depends,
    Flow,
    Headway,
    Job,
    Key,
    Next,
    Retention,
    Retry,
    Step,
    Unique,
)

hw = Headway()


@dataclass
class Cart:
    articles: list[str] = field(default_factory=list[str])


def get_rate() -> float:
    return 0.19


def by_order(order_id: int) -> str:
    return f"order-{order_id}"


def by_amount(amount: int) -> str | None:
    return f"amount-{amount}" if amount else None


@hw.task
async def welcome(user_id: int, email: str = "") -> str:
    return email


# -- definitions -----------------------------------------------------------------------------------

plain_flow = hw.flow("plain")
assert_type(plain_flow, Flow[None])
shop = hw.flow(
    "shop",
    state=Cart,
    queue="orders",
    priority=2,
    retry=Retry(max_attempts=3),
    timeout="1m",
    transaction=False,
    ttl="1d",
    concurrency_key=Key(by_order, limit=2, ordered=False),
    unique=Unique("only one", policy="reject", scope="waiting"),
    keep=Retention(succeeded="1d"),
    dead_letter="dead",
    on_failure=welcome,
)
assert_type(shop, Flow[Cart])
hw.flow("kept", keep="none", unique="a", concurrency_key="b", on_failure="welcome")


@shop.step
async def reserve(ctx: Context, order_id: int, rate: float = Depends(get_rate)) -> Next:
    cart = shop.state(ctx)
    assert_type(cart, Cart)
    cart.articles.append("ink")
    assert_type(ctx.step, str)
    assert_type(await ctx.enqueue(welcome, user_id=1), Job[str])
    assert_type(await ctx.enqueue(welcome.using(delay="1h", unique="u"), 1, "a"), Job[str])
    await ctx.enqueue(charge, amount=3)
    await ctx.enqueue(plain_flow, anything="goes")
    return charge.next(amount=order_id)


@shop.step(
    name="bill",
    queue="money",
    priority=3,
    retry=Retry(max_attempts=20),
    timeout="1m",
    delay=timedelta(minutes=1),
    slots=2,
    transaction=True,
    concurrency_key=by_amount,
)
async def charge(ctx: Context, amount: int) -> Next | str:
    await ctx.conn.execute("select 1")
    if amount > 100:
        return charge.after("1h", amount - 1)
    return pack.next("small", copies=2) if amount < 10 else f"charged {amount}"


@shop.step
def pack(size: str, copies: int = 1) -> Next:
    return unpack.after(1.5, size=size)


@shop.step(executor="process")
def unpack(ctx: Context, size: str) -> dict[str, str]:
    ctx.enqueue_sync(welcome, 1, email="a")
    return {"size": size}


assert_type(reserve.next(1), Next)
assert_type(reserve.next(order_id=1), Next)
assert_type(pack.after("1h", "small", copies=3), Next)
unpacked: Step[..., dict[str, str]] = unpack
assert_type(unpack.name, str)


# -- the end is Any: which step ends a flow is not known before it runs ----------------------------


async def enqueue() -> None:
    job = await shop.enqueue(order_id=1)
    assert_type(job, Job[Any])
    assert_type(await shop.using(state=Cart(["pen"]), priority=5).enqueue(1), Job[Any])
    assert_type(await reserve.enqueue(1), Job[Any])
    assert_type(await charge.using(delay="1h", retry=Retry()).enqueue(amount=3), Job[Any])
    assert_type(shop.enqueue_sync(order_id=1), Job[Any])
    assert_type(await shop.enqueue_many([{"order_id": 1}, shop.call(2)]), list[Job[Any]])
    assert_type(charge.call(3), Call[Any])
    assert_type(shop.enqueue_many_sync([charge.call(amount=3)]), list[Job[Any]])
    assert_type(job.created, bool)
    assert_type(await job.retry(from_step="bill"), bool)
    assert_type(await job.edit({"amount": 3}), bool)
    for row in await job.history():
        assert_type(row.step, str)
        assert_type(row.next_step, str | None)
        assert_type(row.started_at, datetime | None)
    assert_type((await job.status()).carried, Any)


async def failures() -> None:
    async for failure in hw.failures():
        assert_type(failure.step, str)
        assert_type(failure.job_id, UUID)


# -- chains ----------------------------------------------------------------------------------------

lines = hw.flow("lines")


@lines.step
async def read(path: str) -> str:
    return path


@lines.step(timeout="1m")
async def parse(ctx: Context, text: str, separator: str = ",") -> list[int] | Next:
    return read.next(text) if separator in text else [1]


@lines.step
def total(numbers: list[int], rate: float = Depends(get_rate)) -> int:
    return sum(numbers)


@lines.step
async def announce(total: int) -> None: ...


lines.chain(read, parse)
lines.chain(read, parse, total)
lines.chain(read, parse, total, announce)
