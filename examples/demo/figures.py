"""How a run stands, read from the view `headway.jobs`, which is open to everyone who speaks SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

ENDS = ("succeeded", "failed", "cancelled", "expired")

_BY_TASK = """
select task, state, count(*), count(*) filter (where attempt > 1)
from headway.jobs where id = any (%s) group by task, state
"""
_LIVE = "select ready + scheduled + blocked + running from headway.queues where queue = %s"
_RATE = """
select count(*), extract(epoch from max(finished_at) - min(started_at))::float8
from headway.jobs where id = any (%s) and state = 'succeeded'
"""


_LEDGER = "create table if not exists ledger (order_id int, cents int); truncate ledger"
_BOOKED = "select count(*), count(distinct order_id) from ledger"


@dataclass(frozen=True, slots=True)
class Figures:
    """Jobs of a run by task and state, and how many of each task took more than one attempt."""

    by_task: dict[str, Counter[str]]
    retried_by_task: Counter[str]

    def __getitem__(self, state: str) -> int:
        return sum(states[state] for states in self.by_task.values())

    @property
    def ended(self) -> int:
        return sum(self[state] for state in ENDS)

    @property
    def known(self) -> int:
        """Every job there is of this run, in whatever state."""
        return sum(states.total() for states in self.by_task.values())

    @property
    def retried(self) -> int:
        return self.retried_by_task.total()


def read(conn: psycopg.Connection[Any], ids: Sequence[UUID]) -> Figures:
    by_task: dict[str, Counter[str]] = {}
    retried = Counter[str]()
    for task, state, count, again in conn.execute(_BY_TASK, [list(ids)]):
        by_task.setdefault(task, Counter())[state] += count
        retried[task] += again
    return Figures(by_task, retried)


def open_ledger(conn: psycopg.Connection[Any]) -> None:
    conn.execute(_LEDGER)


def booked(conn: psycopg.Connection[Any]) -> tuple[int, int]:
    """How many rows the ledger has, and of how many orders."""
    row = conn.execute(_BOOKED).fetchone()
    assert row is not None
    return row[0], row[1]


def live(conn: psycopg.Connection[Any], queue: str) -> int:
    """How many jobs of a queue are still to be run."""
    row = conn.execute(_LIVE, [queue]).fetchone()
    return row[0] if row else 0


def rate(conn: psycopg.Connection[Any], ids: Sequence[UUID]) -> tuple[int, float]:
    """How many succeeded, and how many a second from the first start to the last end."""
    row = conn.execute(_RATE, [list(ids)]).fetchone()
    count, took = row or (0, None)
    return count, count / took if took else 0.0
