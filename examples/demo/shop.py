"""The tasks of a small web shop. Failures here are on purpose, by the number of the job.

headway worker shop:hw
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib

from headway import Context, Fatal, Headway, Key, Limit, Retry, Snooze

hw = Headway(embedded=True)

_SOON = Retry(max_attempts=4, base="300ms", cap="2s")


@hw.task(queue="mail", retry=_SOON, timeout="10s")
async def welcome(ctx: Context, user_id: int, email: str) -> str:
    """A mail to a new user. The provider refuses every tenth once, and an address without @ for good."""
    await asyncio.sleep(0.02)
    if "@" not in email:
        raise Fatal(f"{email!r} is not an address")
    if user_id % 10 == 3 and ctx.attempt == 1:
        raise ConnectionError("421 too many connections, try again later")
    return f"sent to {email}"


@hw.task(queue="orders", priority=5, retry=_SOON)
async def receipt(ctx: Context, order_id: int, cents: int) -> dict[str, str | int]:
    """A receipt for an order, before all others. Some wait for the payment, at no cost of an attempt."""
    await asyncio.sleep(0.03)
    if order_id % 25 == 7 and "asked" not in _payments.setdefault(order_id, []):
        _payments[order_id].append("asked")
        raise Snooze("500ms")
    return {"order": order_id, "total": cents, "number": f"R-{order_id:06}"}


_payments: dict[int, list[str]] = {}


@hw.task(queue="images", retry=_SOON)
def thumbnail(image: str, width: int) -> int:
    """A plain function, in a thread: shrinks a made-up picture and says how many bytes are left."""
    pixels = hashlib.shake_256(image.encode()).digest(width * 400)
    return len(zlib.compress(pixels + bytes(width * 400), level=6))


@hw.task(queue="reports", executor="process", timeout="30s")
def report(ctx: Context, month: str) -> int:
    """Plain arithmetic that would hold up everyone else: in a process of its own."""
    total = 0
    for day in range(1, 31):
        total += sum(n * day % 97 for n in range(5_000))
        ctx.progress_sync(day / 30 * 100, f"{month}-{day:02}")
    return total


@hw.task(
    queue="orders",
    retry=Retry(max_attempts=3, base="200ms"),
    limit=Limit(concurrency=4, key=lambda warehouse, **_: warehouse),  # each of them, fleet-wide
)
async def book(order_id: int, warehouse: str) -> str:
    """Asks a warehouse for the goods. The one on the moon never answers."""
    await asyncio.sleep(0.01)
    if warehouse == "moon":
        raise TimeoutError("no answer from the moon")
    return f"{warehouse}/{order_id}"


@hw.task(queue="reports", schedule="@every 5s")
async def stocktake(ctx: Context) -> str:
    """Made by its schedule, once for each occurrence."""
    return f"counted for {ctx.headers['occurrence']}"


order = hw.flow("order", queue="orders", retry=_SOON)


@order.step(transaction=True)
async def pay(ctx: Context, order_id: int, cents: int):
    """Books the payment: the row and the move to the next step commit together. Some are tried twice."""
    await ctx.conn.execute("insert into ledger values (%s, %s)", [order_id, cents])
    if order_id % 8 == 5 and ctx.attempt == 1:
        raise ConnectionError("the bank hung up")  # and the row is gone again
    return pick.next(order_id=order_id, shelf=order_id % 4)


@order.step(concurrency_key=Key(lambda shelf, **_: f"shelf-{shelf}"))
async def pick(order_id: int, shelf: int):
    """One at a time for each shelf, on any number of workers."""
    await asyncio.sleep(0.01)
    return ship.after("200ms", order_id=order_id)


@order.step
async def ship(order_id: int) -> str:
    return f"order {order_id} is on its way"


@hw.task(queue="counters")
async def count(n: int) -> int:
    """As little as a task can do, to see what a job costs."""
    return n + 1
