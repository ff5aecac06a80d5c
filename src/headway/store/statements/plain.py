"""Statements that enqueue plain jobs: ready at once, without keys, options or headers.

Most jobs are plain. They need no function: each is one row of the view `new_jobs`. The client notifies
workers after its commit (`hints` of the statement), except in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headway.core import codec
from headway.store.connections.connect import Target
from headway.store.connections.identity import Identity
from headway.store.documents import Hint, PlainShape, plain_jobs
from headway.store.statement import Row, Statement


def enqueue_one(shape: PlainShape, job_id: str, input_: bytes) -> Statement[None]:
    """Insert one plain job."""
    return Statement(
        "writes/enqueue_one", _params(shape, job_id, input_), _nothing, hints=shape.hints
    )


def enqueue_one_in(
    target: Target, shape: PlainShape, job_id: str, input_: bytes, place: Identity
) -> Statement[bool]:
    """Insert one plain job on a connection of the caller's. Return whether it was inserted.

    It is not if the connection leads to another database, or if the job exists."""
    params = _params(shape, job_id, input_)
    params["channel"] = target.work_channel
    params["database"] = place.database
    params["server"] = place.server
    return Statement("writes/enqueue_one_in", params, lambda rows: rows[0][0] == 1, counted=True)


def enqueue_alike(
    shape: PlainShape, ids: Sequence[str], inputs: Sequence[bytes]
) -> Statement[None]:
    """Insert plain jobs of one shape, in order."""
    params = {
        "max_attempts": shape.max_attempts,
        "priority": shape.priority,
        "queue": shape.queue,
        "task": shape.task,
        "step": shape.step,
        "jobs": plain_jobs(ids, inputs),
    }
    return Statement("writes/enqueue_alike", params, _nothing, hints=shape.hints)


def notify_lanes(channel: str, hints: Iterable[Hint]) -> Statement[int]:
    """Notify workers of jobs that have committed. Return the number of notifications."""
    document = [
        {"queue": queue, "priority": priority, "state": state} for queue, priority, state in hints
    ]
    params = {"channel": channel, "hints": codec.encode_document(document)}
    return Statement("writes/notify_lanes", params, len)


def _params(shape: PlainShape, job_id: str, input_: bytes) -> dict[str, Any]:
    return {
        "id": job_id,
        "max_attempts": shape.max_attempts,
        "priority": shape.priority,
        "queue": shape.queue,
        "task": shape.task,
        "step": shape.step,
        "input": input_.decode(),
    }


def _nothing(_: Sequence[Row]) -> None:
    return None
