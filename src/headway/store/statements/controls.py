"""Statements about pauses and limits of queues, tasks and keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from headway.core import codec
from headway.core.definition import Definition
from headway.core.info import Control, ControlKind
from headway.core.limits import Limit
from headway.store.connections.connect import Target
from headway.store.rows import control as read_row
from headway.store.statement import Statement, count, exists
from headway.store.statements.jobs import Moment


def first_end(controls: Iterable[Control]) -> float | None:
    """Return the seconds until the first of these pauses ends by itself, or None."""
    ends = [row.paused_for for row in controls if row.paused and row.paused_for is not None]
    return min(ends, default=None)


class LockedLimit(NamedTuple):
    """A limit that this transaction has locked."""

    kind: str
    name: str
    rate: float | None
    burst: int | None
    spent_for: float
    """Seconds until all its tokens are earned again."""
    room: int | None = None
    """How many more jobs may run, at least. None if it was not counted, or is not limited."""

    def token_in(self, taken: int) -> float | None:
        """Return the seconds until the next token after `taken` more starts. None without a rate."""
        if self.rate is None or self.burst is None:
            return None
        return max(0.0, self.spent_for + (taken - self.burst + 1) / self.rate)


def pause(
    target: Target,
    kind: ControlKind,
    name: str,
    *,
    actor: str | None,
    reason: str | None,
    until: datetime | float | None,
    now: Moment,
) -> Statement[datetime]:
    """Pause it, without an end, until a moment, or for some seconds. Return when the pause began."""
    params = {
        "kind": kind,
        "name": name,
        "actor": actor,
        "reason": reason,
        "until": until if isinstance(until, datetime) else None,
        "lasting": None if isinstance(until, datetime) else until,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("writes/pause", params, lambda rows: rows[0][0])


def resume(target: Target, kind: ControlKind, name: str, now: Moment) -> Statement[bool]:
    """End a pause. Return false if it was not paused."""
    params = {"kind": kind, "name": name, "channel": target.work_channel, "now": now}
    return Statement("writes/resume", params, lambda rows: bool(rows and rows[0][0]))


def read(now: Moment) -> Statement[list[Control]]:
    """Return every pause and limit."""
    return Statement("reads/controls", {"now": now}, lambda rows: [read_row(row) for row in rows])


def lock(
    queues: Collection[str], tasks: Collection[str], now: Moment, *, counting: bool = False
) -> Statement[list[LockedLimit]]:
    """Lock limits before a claim, in the same round trip. Return those that no other claim has locked.

    Run again with `counting`, it also returns the room under them."""
    params = {
        "counting": counting,
        "queues": codec.encode_document(list(queues)),
        "tasks": codec.encode_document(list(tasks)),
        "now": now,
    }
    return Statement("writes/lock_limits", params, lambda rows: [LockedLimit(*row) for row in rows])


def set_limit(
    target: Target,
    kind: ControlKind,
    name: str,
    limit: Limit | None,
    actor: str | None,
    now: Moment,
) -> Statement[bool]:
    """Set the limits that a person wants. None removes a limit."""
    params = {
        "kind": kind,
        "name": name,
        **_numbers(limit),
        "actor": actor,
        "channel": target.work_channel,
        "now": now,
    }
    return Statement("writes/set_limit", params, exists)


def reset_limit(target: Target, kind: ControlKind, name: str) -> Statement[bool]:
    """Restore the limits that the code declares. Return false if nobody had changed them."""
    params = {"kind": kind, "name": name, "channel": target.work_channel}
    return Statement("writes/reset_limit", params, exists)


def declare(target: Target, definitions: Iterable[Definition]) -> Statement[int]:
    """Store the limits that the code declares. Return how many had changed."""
    document = [
        {"kind": kind, "name": definition.handler, "limits": _numbers(limit) if limit else None}
        for definition in definitions
        for kind, limit in _declared(definition.limit)
    ]
    params = {"limits": codec.encode_document(document), "channel": target.work_channel}
    return Statement("writes/declare_limits", params, len)


def notify_open(target: Target, limits: Collection[tuple[str, str]]) -> Statement[int]:
    """Notify workers that found no room under these limits that there is some."""
    names = [f"{kind} {name}" for kind, name in limits]
    params = {"limits": codec.encode_document(names), "channel": target.work_channel}
    return Statement("writes/notify_open", params, count)


def mark_limited(worker: int | None = None) -> Statement[int]:
    """Mark running jobs that count under a new limit: those of one worker, or all."""
    return Statement("writes/mark_limited", {"worker": worker}, count)


def _declared(limit: Limit | None) -> list[tuple[ControlKind, Limit | None]]:
    by_key = limit is not None and limit.key is not None
    return [("task", None if by_key else limit), ("keys", limit if by_key else None)]


def _numbers(limit: Limit | None) -> dict[str, Any]:
    return {
        "concurrency": None if limit is None else limit.concurrency,
        "rate": None if limit is None else limit.per_second,
        "burst": None if limit is None else limit.at_once,
    }
