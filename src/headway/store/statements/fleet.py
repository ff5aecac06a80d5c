"""Statements about workers: registration, heartbeats, leadership, declarations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core import codec
from headway.core.definition import Definition
from headway.store.connections.connect import Target
from headway.store.statement import Row, Statement, count, exists
from headway.store.statements.jobs import Moment


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
    was: int | None = None,
) -> Statement[int]:
    """Register a worker and return its id.

    `schedules` are the names that its code declares. `was` is the id under which the same process lost
    its lease."""
    params: dict[str, Any] = {
        "name": name,
        "version": version,
        "slots": slots,
        "queues": codec.encode_document(queues),
        "tasks": codec.encode_document(tasks),
        "schedules": codec.encode_document(schedules),
        "lease": lease,
        "was": was,
        "now": now,
    }
    return Statement("writes/register_worker", params, count)


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat: whether this worker leads, in how many seconds the leader's lease before
    this heartbeat ends, and whether somebody asked the worker to drain."""

    leads: bool
    leader_expires_in: float | None
    draining: bool = False
    server: str | None = None
    """Identifies the server that answered, until it restarts."""


def heartbeat(
    worker: int,
    lease: float,
    now: Moment,
    *,
    listening: bool | None = None,
    trouble: str | None = None,
) -> Statement[Beat | None]:
    """Extend a worker's lease, and store whether it hears notifications and what is wrong with it.

    Return None if the lease had run out."""
    params = {"worker": worker, "lease": lease, "now": now}
    said = {"listening": listening, "trouble": trouble}
    return Statement("writes/heartbeat", params | said, _beat)


def note_trouble(worker: int, trouble: str) -> Statement[bool]:
    """Store what is wrong with a worker. Return false if its row is gone or locked."""
    return Statement("writes/note_trouble", {"worker": worker, "trouble": trouble}, exists)


def retire(worker: int, now: Moment, *, survived: bool = True) -> Statement[bool]:
    """End a worker's lease now. If it has not `survived`, its jobs are suspected of a crash."""
    params = {"worker": worker, "now": now, "survived": survived}
    return Statement("writes/retire_worker", params, exists)


def drain(target: Target, worker: int, now: Moment) -> Statement[bool]:
    """Ask a worker to drain. Return false if it is not alive."""
    params = {"worker": worker, "now": now, "channel": target.work_channel}
    return Statement("writes/drain_worker", params, exists)


def clean_up(now: Moment) -> Statement[int]:
    """Delete rows that no longer matter. Return the number of workers deleted."""
    return Statement("writes/clean_up", {"now": now}, count)


def declare(definitions: Iterable[Definition]) -> Statement[int]:
    """Store what this worker knows about its tasks. Return how many had changed."""
    rows: dict[str, dict[str, Any]] = {}
    for definition in definitions:
        row = {
            "name": definition.handler,
            "queue": definition.queue,
            "priority": definition.priority,
            "max_attempts": definition.retry.max_attempts,
            "max_crashes": definition.retry.max_crashes,
            "keep_succeeded": definition.keep.succeeded_seconds,
            "keep_failed": definition.keep.failed_seconds,
            "dead_letter": definition.dead_letter,
            "on_failure": definition.on_failure,
            "keys": definition.made_keys,
        }
        rows[definition.handler] = row
        if definition.flow is not None and definition.flow.first().step == definition.step:
            # A flow is made, and ended, by its name.
            rows[definition.name] = row | {"name": definition.name, "first_step": definition.step}
    document = codec.encode_document(list(rows.values()))
    return Statement("writes/declare", {"tasks": document}, len)


MOST_ROWS = 5000
"""A sweep of partitions that handled this many rows may have left some (empty_nets)."""


def partitions(now: Moment) -> Statement[tuple[int, int, int]]:
    """Make partitions ahead and drop those past retention. Return how many of each, and how many rows
    were moved out of the default partitions or deleted. Each number is bounded: if a partition was
    made or dropped, or `MOST_ROWS` rows were moved, there may be more to do."""
    return Statement(
        "writes/partitions", {"now": now}, lambda rows: (rows[0][1], rows[0][2], rows[0][0])
    )


def _beat(rows: Sequence[Row]) -> Beat | None:
    return Beat(*rows[0]) if rows else None
