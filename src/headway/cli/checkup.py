"""What the figures of a fleet mean: fine, worth knowing, or wrong. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from headway.cli.queue import pause_in_words
from headway.core.duration import in_words
from headway.errors import SchemaMismatch
from headway.store.rows import QueueRow, ServerRow, WorkerRow

Status = Literal["ok", "note", "wrong"]

_CLOCKS_APART = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. A note is worth knowing; what is wrong keeps jobs from running."""

    about: str
    status: Status
    words: str


def examine(
    server: ServerRow,
    latency: float,
    apart: float,
    schema: str,
    queues: Sequence[QueueRow],
    workers: Sequence[WorkerRow],
    stranded: Mapping[str, int],
    max_wait: float | None,
) -> list[Finding]:
    """All findings about a database that answers and a schema that fits."""
    alive = [worker for worker in workers if worker.alive]
    return [
        Finding(
            "database", "ok", f"PostgreSQL {server.version}, answers in {latency * 1000:.1f} ms"
        ),
        Finding("schema", "ok", schema),
        _clock(apart),
        *_workers(alive, queues),
        *(_queue(queue, max_wait) for queue in queues),
        *(_stranded(task, count) for task, count in stranded.items() if alive),
    ]


def schema_is_wrong(error: SchemaMismatch) -> list[Finding]:
    return [Finding("database", "ok", "answers"), Finding("schema", "wrong", str(error))]


def _clock(apart: float) -> Finding:
    if abs(apart) < _CLOCKS_APART:
        return Finding("clock", "ok", f"{in_words(abs(apart))} from this machine's")
    side = "ahead of" if apart > 0 else "behind"
    return Finding(
        "clock",
        "note",
        f"{in_words(abs(apart))} {side} this machine's; jobs go by the database's clock all the same",
    )


def _workers(alive: Sequence[WorkerRow], queues: Sequence[QueueRow]) -> list[Finding]:
    if alive:
        return [
            Finding(
                f"worker {worker.id}",
                "ok",
                f"{worker.name}, {worker.slots} slots for {', '.join(worker.queues)}, "
                f"heard {in_words(max(0, worker.silent_for))} ago",
            )
            for worker in alive
        ]
    waiting = sum(queue.ready + queue.scheduled + queue.blocked + queue.running for queue in queues)
    words = "none is alive; start one: headway worker module:hw"
    if waiting:
        return [Finding("workers", "wrong", f"{words} (live jobs: {waiting})")]
    return [Finding("workers", "note", words)]


def _queue(queue: QueueRow, max_wait: float | None) -> Finding:
    about = f"queue {queue.name}"
    age = max(0, queue.oldest_ready_age or 0)
    words = f"{queue.ready} ready, {queue.scheduled} scheduled, {queue.running} running"
    if queue.blocked:
        words += f", {queue.blocked} blocked"
    if queue.oldest_ready_age is not None:
        words += f", the oldest ready for {in_words(age)}"
    if queue.paused_at is not None:
        pause = pause_in_words(queue.paused_by, queue.pause_reason)
        return Finding(about, "note", f"{words}; paused {pause}")
    if max_wait is not None and age > max_wait:
        return Finding(about, "wrong", f"{words}, longer than {in_words(max_wait)}")
    return Finding(about, "ok", words)


def _stranded(task: str, count: int) -> Finding:
    return Finding(
        f"task {task}",
        "wrong",
        f"{count} ready jobs, and no live worker knows the task and serves their queue",
    )
