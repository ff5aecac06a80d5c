"""Flows that must be refused. Never run: see test_typing.py, and must_fail.py for the marker."""

from __future__ import annotations

from dataclasses import dataclass

from headway import Context, Headway, Key, Next, Unique

hw = Headway()


@dataclass
class Cart:
    total: int = 0


@hw.task
async def welcome(user_id: int, email: str = "") -> str:
    return email


shop = hw.flow("shop", state=Cart)
other = hw.flow("other")


@shop.step
async def reserve(ctx: Context, order_id: int) -> Next:
    return charge.next(amount="three")  # expect: error


@shop.step(timeout="1m")
async def charge(amount: int, note: str = "") -> Next:
    if amount > 3:
        return charge.after("1h")  # expect: error
    if amount > 2:
        return charge.after(amount=1)  # expect: error
    if amount > 1:
        return charge.next(1, "a", "b")  # expect: error
    return charge  # expect: error


@shop.step
def pack(size: str) -> int:
    return reserve.next(1)  # expect: error


@shop.step
def pair(a: int, b: int) -> None: ...


@shop.step
def named(*, size: str) -> None: ...


@shop.step
def nothing() -> str:
    return ""


async def moves(ctx: Context) -> None:
    reserve.next()  # expect: error
    reserve.next(ctx, 1)  # expect: error
    reserve.next(ctx=ctx, order_id=1)  # expect: error
    pack.next(1)  # expect: error
    pack.after(["1h"], "a")  # expect: error
    pack.after("1h", 1)  # expect: error
    wrong: str = shop.state(ctx)  # expect: error
    print(wrong, shop.state(ctx).sum)  # expect: error
    print(other.state(ctx).total)  # expect: error
    shop.state()  # expect: error


async def calls() -> None:
    await reserve.enqueue("1")  # expect: error
    await charge.using(delay="1h").enqueue("1")  # expect: error
    pack.enqueue_sync(size=1)  # expect: error
    charge.call("x")  # expect: error
    await shop.enqueue_many([1])  # expect: error
    shop.using(dely="1h")  # expect: error
    (await shop.enqueue(1)).retry(form_step="a")  # expect: error


async def children(ctx: Context) -> None:
    await ctx.enqueue(welcome)  # expect: error
    await ctx.enqueue(welcome, "1")  # expect: error
    await ctx.enqueue(welcome, user_id=1, mail="a")  # expect: error
    await ctx.enqueue(welcome.using(delay="1h"), "1")  # expect: error
    await ctx.enqueue(charge, "1")  # expect: error
    await ctx.enqueue("welcome", 1)  # expect: error
    ctx.enqueue_sync(pack, 1)  # expect: error


def chains() -> None:
    shop.chain(pack, pack)  # expect: error
    shop.chain(pack, nothing)  # expect: error
    shop.chain(pack, pair)  # expect: error
    shop.chain(nothing, named)  # expect: error
    shop.chain(nothing, pack, pack)  # expect: error
    shop.chain(pack)  # expect: error
    shop.chain(nothing, welcome)  # expect: error


def options() -> None:
    hw.flow()  # expect: error
    hw.flow("a", que="x")  # expect: error
    hw.flow("a", delay="1h")  # expect: error
    hw.flow("a", executor="process")  # expect: error
    hw.flow("a", state=Cart())  # expect: error
    hw.flow("a", on_failure=3)  # expect: error
    hw.flow("a", concurrency_key=3)  # expect: error
    shop.step(ttl="1h")  # expect: error
    shop.step(unique="a")  # expect: error
    shop.step(retry="3")  # expect: error
    shop.step(executor="fiber")  # expect: error
    shop.step("name")  # expect: error
    welcome.using(unique=3)  # expect: error
    welcome.using(concurrency_key=Unique("a"))  # expect: error
    Unique("a", policy="ignore")  # expect: error
    Unique("a", scope="forever")  # expect: error
    Key(3)  # expect: error
    Key("a", limit="2")  # expect: error
