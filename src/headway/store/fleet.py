"""Workers, their heartbeats and the duties they share, as statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core import codec
from headway.core.definition import Definition
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
    *,
    schedules: Sequence[str] = (),
) -> Statement[int]:
    """A new worker; the answer is its id. `schedules` are the names of those that its code declares."""
    params: dict[str, Any] = {
        "name": name,
        "version": version,
        "slots": slots,
        "queues": codec.encode_document(queues),
        "tasks": codec.encode_document(tasks),
        "schedules": codec.encode_document(schedules),
        "lease": lease,
        "now": now,
    }
    return Statement("writes/register_worker", params, count)


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat found: whether the sweeps are this worker's duty, for how long (seconds) they
    were someone's before it, and whether the worker was asked to drain."""

    duty: bool
    duty_runs_for: float | None
    draining: bool = False


def heartbeat(
    worker: int, lease: float, now: Moment, *, listening: bool | None = None
) -> Statement[Beat | None]:
    """Extends a worker's lease, and notes whether it hears notifications; none if it was too late."""
    params = {"worker": worker, "lease": lease, "now": now, "listening": listening}
    return Statement("writes/heartbeat", params, _beat)


def retire(worker: int, now: Moment) -> Statement[bool]:
    """Ends a worker's lease now."""
    return Statement("writes/retire_worker", {"worker": worker, "now": now}, exists)


def drain(target: Target, worker: int, now: Moment) -> Statement[bool]:
    """Asks a worker to drain; false if there is no such worker alive."""
    params = {"worker": worker, "now": now, "channel": target.work_channel}
    return Statement("writes/drain_worker", params, exists)


def forget(now: Moment) -> Statement[int]:
    """Removes the rows of workers that are long gone."""
    return Statement("writes/forget", {"now": now}, count)


def declare(definitions: Iterable[Definition]) -> Statement[int]:
    """Says what this worker knows of its tasks; how many had changed."""
    rows: dict[str, dict[str, Any]] = {}
    for definition in definitions:
        row = {
            "name": definition.handler,
            "queue": definition.queue,
            "priority": definition.priority,
            "max_attempts": definition.retry.max_attempts,
            "keep_succeeded": definition.keep.succeeded_seconds,
            "keep_failed": definition.keep.failed_seconds,
            "dead_letter": definition.dead_letter,
            "on_failure": definition.on_failure,
        }
        rows[definition.handler] = row
        if definition.flow is not None and definition.flow.first() is definition:
            # A flow is made, and ended, by its name.
            rows[definition.name] = row | {"name": definition.name, "first_step": definition.step}
    document = codec.encode_document(list(rows.values()))
    return Statement("writes/declare", {"tasks": document}, len)


def partitions(now: Moment) -> Statement[tuple[int, int]]:
    """Makes partitions ahead and drops those of which nothing is kept: how many of each."""
    return Statement("writes/partitions", {"now": now}, lambda rows: (rows[0][0], rows[0][1]))


def _beat(rows: Sequence[Row]) -> Beat | None:
    return Beat(*rows[0]) if rows else None
