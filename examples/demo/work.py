"""The jobs that the demonstration enqueues, and how they must end."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from uuid import UUID

from shop import book, order, receipt, report, thumbnail, welcome

DOOMED = 2
"""Jobs of `a_few_hundred` that fail for good: an address without @, and the moon."""

ORDERS = 40
"""Flows of three steps; the first books each of them in a table, once."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The jobs of one run."""

    ids: list[UUID]
    delayed: int


def a_few_hundred() -> Enqueued:
    """Some 440 mails, receipts, thumbnails, reports and orders; some for later, two without hope."""
    jobs = [
        *welcome.enqueue_many_sync(
            [{"user_id": n, "email": f"user{n}@example.com"} for n in range(1, 151)]
        ),
        *receipt.enqueue_many_sync([{"order_id": n, "cents": 990 + n} for n in range(1, 101)]),
        *thumbnail.enqueue_many_sync(
            [{"image": f"photo-{n}.jpg", "width": 160 + n % 3 * 160} for n in range(1, 101)]
        ),
        *book.enqueue_many_sync([{"order_id": n, "warehouse": "north"} for n in range(1, 29)]),
        *report.enqueue_many_sync([{"month": "2026-01"}]),
        *order.enqueue_many_sync([{"order_id": n, "cents": 100 * n} for n in range(1, ORDERS + 1)]),
        welcome.enqueue_sync(user_id=0, email="nowhere"),
        book.enqueue_sync(order_id=29, warehouse="moon"),
    ]
    delayed = [
        welcome.using(delay=f"{2 + n % 3}s").enqueue_sync(user_id=n, email=f"later{n}@example.com")
        for n in range(1000, 1019)
    ]
    return Enqueued([job.id for job in jobs + delayed], len(delayed))


def a_trickle() -> list[UUID]:
    """A few more of everything, now and then one that fails."""
    n = next(_numbers)
    jobs = [
        welcome.enqueue_sync(user_id=n, email=f"user{n}@example.com"),
        receipt.enqueue_sync(order_id=n, cents=random.randint(100, 99_900)),
        thumbnail.enqueue_sync(image=f"photo-{n}.jpg", width=320),
    ]
    if n % 5 == 0:
        later = welcome.using(delay="5s").enqueue_sync(user_id=n, email=f"later{n}@example.com")
        jobs.append(later)
    if n % 4 == 0:
        jobs.append(order.enqueue_sync(order_id=n, cents=100 * n))
    if n % 20 == 0:
        jobs.append(report.enqueue_sync(month="2026-02"))
    if n % 30 == 0:
        jobs.append(book.enqueue_sync(order_id=n, warehouse="moon"))
    return [job.id for job in jobs]
