"""A small project under test: an app for another database, which no test must reach."""

from __future__ import annotations

import asyncio
from typing import Annotated

from headway import Context, Depends, Fatal, Headway, Limit, Retry

hw = Headway("postgresql://nobody@127.0.0.1:1/production")

done: list[object] = []
"""The effects of the handlers."""


class Declined(Exception):
    """The card was declined."""


def sender() -> str:
    return "smtp"


@hw.task
async def welcome(user_id: int, email: str, via: Annotated[str, Depends(sender)]) -> str:
    done.append(("welcome", user_id, via))
    return email


@hw.task(delay="3d")
def remind(user_id: int) -> None:
    done.append(("remind", user_id))


@hw.task(retry=Retry(max_attempts=3))
async def charge(ctx: Context, amount: int, ok_from: int = 99) -> None:
    done.append(("charge", amount, ctx.attempt))
    if amount < 0:
        raise Fatal("a negative amount")
    if ctx.attempt < ok_from:
        raise Declined(f"no {amount}")


@hw.task(limit=Limit(rate="2/min"))
async def call_api(n: int) -> None:
    done.append(("call", n))


@hw.task(limit=Limit(rate="1/min", key=lambda tenant, **_: tenant))
async def sync_tenant(tenant: str, page: int) -> None:
    done.append((tenant, page))


@hw.task(timeout="30s", retry=1)
async def slow(ctx: Context) -> None:
    done.append(ctx.deadline and (ctx.deadline - ctx.now()).total_seconds())
    await asyncio.Event().wait()


@hw.task(transaction=True)
def book(ctx: Context, n: int) -> None:
    done.append(("book", n))
    ctx.enqueue_sync(welcome, n, "after")


trip = hw.flow("trip")


@trip.step
async def book_hotel(city: str):
    done.append(("hotel", city))
    return book_flight.next(city=city)


@trip.step
def book_flight(city: str):
    done.append(("flight", city))
    return {"booked": city}
