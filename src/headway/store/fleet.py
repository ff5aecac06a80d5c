"""Workers, their heartbeats and the duties they share, as statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway.core import codec
from headway.core.config import Retention
from headway.core.duration import seconds
from headway.store.connect import Target
from headway.store.jobs import Moment
from headway.store.statement import Row, Statement, count, exists


def register(
    name: str,
    version: str,
    slots: int,
    queues: Sequence[str],
    tasks: Sequence[str],
    lease: float,
    now: Moment,
) -> Statement[int]:
    """A new worker; the answer is its id."""
    params: dict[str, Any] = {
        "name": name,
        "version": version,
        "slots": slots,
        "queues": codec.encode_document(queues),
        "tasks": codec.encode_document(tasks),
        "lease": lease,
        "now": now,
    }
    return Statement("writes/register_worker", params, count)


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat found: whether the sweeps are this worker's duty, and for how long (seconds)
    they were someone's before it."""

    duty: bool
    duty_runs_for: float | None


def heartbeat(worker: int, lease: float, now: Moment) -> Statement[Beat | None]:
    """Extends a worker's lease; none if it was too late."""
    params = {"worker": worker, "lease": lease, "now": now}
    return Statement("writes/heartbeat", params, _beat)


def retire(worker: int, now: Moment) -> Statement[bool]:
    """Ends a worker's lease now."""
    return Statement("writes/retire_worker", {"worker": worker, "now": now}, exists)


def forget(now: Moment) -> Statement[int]:
    """Removes the rows of workers that are long gone."""
    return Statement("writes/forget", {"now": now}, count)


def partitions(keep: Retention, now: Moment) -> Statement[tuple[int, int]]:
    """Makes partitions ahead and drops old ones: how many of each."""
    params = {
        "succeeded": seconds(keep.succeeded),
        "failed": seconds(keep.failed),
        "now": now,
    }
    return Statement("writes/partitions", params, lambda rows: (rows[0][0], rows[0][1]))


def pause(queue: str, by: str | None, reason: str | None, now: Moment) -> Statement[bool]:
    """Stops claims from a queue."""
    params = {"queue": queue, "by": by, "reason": reason, "now": now}
    return Statement("writes/pause_queue", params, exists)


def resume(target: Target, queue: str) -> Statement[bool]:
    """Opens a paused queue; false if it was not paused."""
    params = {"queue": queue, "channel": target.work_channel}
    return Statement("writes/resume_queue", params, exists)


def _beat(rows: Sequence[Row]) -> Beat | None:
    return Beat(*rows[0]) if rows else None
