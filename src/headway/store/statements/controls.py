"""Pauses and limits of queues, tasks and keys, as statements."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from headway.core import codec
from headway.core.definition import Definition
from headway.core.limits import Limit
from headway.store.connect import Target
from headway.store.jobs import Moment
from headway.store.statement import Row, Statement, count, exists

Kind = Literal["queue", "task", "keys", "key"]
"""What something is said of: a queue, a handler, each key of a handler, or one key."""


@dataclass(frozen=True, slots=True)
class ControlRow:
    """What is said of a queue, a task, each key of a task, or one key: a pause, limits, or both."""

    kind: Kind
    name: str
    paused: bool
    paused_for: float | None
    """Seconds until a pause ends by itself; none if someone has to resume it."""
    concurrency: int | None
    rate: float | None
    """Starts per second."""
    burst: int | None
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    pause_reason: str | None
    declared: dict[str, Any] | None
    """The limits that the code declares."""
    changed_at: datetime | None
    """When someone set other limits than those."""
    changed_by: str | None

    @classmethod
    def of(cls, row: Row) -> ControlRow:
        facts: list[Any] = [*row]
        facts[11] = None if facts[11] is None else codec.decode(facts[11])
        return cls(*facts)

    @property
    def limited(self) -> bool:
        return self.concurrency is not None or self.rate is not None

    @property
    def says_something(self) -> bool:
        """Not what is left of a pause that is over."""
        return self.paused or self.limited or bool(self.declared or self.changed_at)


def first_end(controls: Iterable[ControlRow]) -> float | None:
    """Seconds until the first of their pauses ends by itself; none if none does."""
    ends = [row.paused_for for row in controls if row.paused and row.paused_for is not None]
    return min(ends, default=None)


class LockedLimit(NamedTuple):
    """A limit that this transaction has to itself."""

    kind: str
    name: str
    rate: float | None
    burst: int | None
    spent_for: float
    """Seconds until all its tokens are earned again."""
    room: int | None = None
    """How many more may run at least, where that was asked and is limited."""

    def token_in(self, taken: int) -> float | None:
        """In how many seconds there is a token, once so many more were taken; none without a rate."""
        if self.rate is None or self.burst is None:
            return None
        return max(0.0, self.spent_for + (taken - self.burst + 1) / self.rate)


def pause(
    target: Target,
    kind: Kind,
    name: str,
    *,
    by: str | None,
    reason: str | None,
    until: datetime | float | None,
    now: Moment,
) -> Statement[datetime]:
    """Stops claims of it, for good or until a moment (or for so many seconds); since when."""
    params = {
        "kind": kind,
        "name": name,
        "by": by,
        "reason": reason,
        "until": until if isinstance(until, datetime) else None,
        "lasting": None if isinstance(until, datetime) else until,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("writes/pause", params, lambda rows: rows[0][0])


def resume(target: Target, kind: Kind, name: str, now: Moment) -> Statement[bool]:
    """Opens it; false if it was not paused."""
    params = {"kind": kind, "name": name, "channel": target.work_channel, "now": now}
    return Statement("writes/resume", params, lambda rows: bool(rows and rows[0][0]))


def read(now: Moment) -> Statement[list[ControlRow]]:
    """Every pause and limit there is."""
    return Statement(
        "reads/controls", {"now": now}, lambda rows: [ControlRow.of(row) for row in rows]
    )


def lock(
    queues: Collection[str], tasks: Collection[str], now: Moment, *, counting: bool = False
) -> Statement[list[LockedLimit]]:
    """Before a claim, in the same round trip: those of these limits that nobody else has. Once more, with
    `counting`: how much room there is under them."""
    params = {
        "counting": counting,
        "queues": codec.encode_document(list(queues)),
        "tasks": codec.encode_document(list(tasks)),
        "now": now,
    }
    return Statement("writes/lock_limits", params, lambda rows: [LockedLimit(*row) for row in rows])


def set_limit(
    target: Target, kind: Kind, name: str, limit: Limit | None, by: str | None, now: Moment
) -> Statement[bool]:
    """Sets what a person wants the limits to be; none for none at all."""
    params = {
        "kind": kind,
        "name": name,
        **_numbers(limit),
        "by": by,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("writes/set_limit", params, exists)


def reset_limit(target: Target, kind: Kind, name: str) -> Statement[bool]:
    """Back to the limits that the code declares; false if nobody had changed them."""
    params = {"kind": kind, "name": name, "channel": target.work_channel}
    return Statement("writes/reset_limit", params, exists)


def declare(target: Target, definitions: Iterable[Definition]) -> Statement[int]:
    """Says what limits the code has; how many had changed."""
    document = [
        {"kind": kind, "name": definition.handler, "limits": _numbers(limit) if limit else None}
        for definition in definitions
        for kind, limit in _declared(definition.limit)
    ]
    params = {"limits": codec.encode_document(document), "channel": target.work_channel}
    return Statement("writes/declare_limits", params, len)


def ring_open(target: Target, limits: Collection[tuple[str, str]]) -> Statement[int]:
    """Tells those who found no room under these limits that there is some."""
    names = [f"{kind} {name}" for kind, name in limits]
    params = {"limits": codec.encode_document(names), "channel": target.work_channel}
    return Statement("writes/ring_open", params, count)


def mark_limited(worker: int | None = None) -> Statement[int]:
    """Have running jobs count under limits that they do not know of yet: those of a worker, or all."""
    return Statement("writes/mark_limited", {"worker": worker}, count)


def _declared(limit: Limit | None) -> list[tuple[Kind, Limit | None]]:
    by_key = limit is not None and limit.key is not None
    return [("task", None if by_key else limit), ("keys", limit if by_key else None)]


def _numbers(limit: Limit | None) -> dict[str, Any]:
    return {
        "concurrency": None if limit is None else limit.concurrency,
        "rate": None if limit is None else limit.per_second,
        "burst": None if limit is None else limit.at_once,
    }
