"""What the figures of a fleet mean: fine, worth knowing, or wrong. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.cli.person import pause_in_words
from headway.core.duration import in_words
from headway.core.finding import Finding
from headway.core.limits import in_words as limits_in_words
from headway.engine.health.probe import clock_finding
from headway.errors import SchemaMismatch
from headway.store.controls import ControlRow
from headway.store.dsn import Place
from headway.store.rows import QueueRow, ServerRow, WorkerRow


def examine(
    place: Place,
    server: ServerRow,
    acquired_in: float,
    answered_in: float,
    apart: float,
    schema: str,
    queues: Sequence[QueueRow],
    workers: Sequence[WorkerRow],
    stranded: Mapping[str, int],
    controls: Sequence[ControlRow],
    max_wait: float | None,
) -> list[Finding]:
    """All findings about a database that answers and a schema that fits."""
    alive = [worker for worker in workers if worker.alive]
    return [
        Finding(
            "database",
            "ok",
            f"{place}; PostgreSQL {server.version}, connected in {acquired_in * 1000:.1f} ms, "
            f"answers in {answered_in * 1000:.1f} ms",
        ),
        Finding("schema", "ok", schema),
        clock_finding(apart),
        *_workers(alive, queues),
        *(_queue(queue, max_wait) for queue in queues),
        *(_stranded(task, count) for task, count in stranded.items() if alive),
        *(_paused(said) for said in controls if said.kind == "task" and said.paused),
    ]


def schema_is_wrong(error: SchemaMismatch, place: Place) -> list[Finding]:
    return [Finding("database", "ok", f"{place}; answers"), Finding("schema", "wrong", str(error))]


def _workers(alive: Sequence[WorkerRow], queues: Sequence[QueueRow]) -> list[Finding]:
    found = [_worker(worker) for worker in alive]
    if not all(worker.draining for worker in alive):
        return found
    waiting = sum(queue.ready + queue.scheduled + queue.blocked for queue in queues)
    if not alive:  # who drains finishes what runs
        waiting += sum(queue.running for queue in queues)
    which = "all that are alive drain" if alive else "none is alive"
    words = f"{which}; start one: headway worker module:hw"
    if waiting:
        return [*found, Finding("workers", "wrong", f"{words} (live jobs: {waiting})")]
    return [*found, Finding("workers", "note", words)]


def _worker(worker: WorkerRow) -> Finding:
    words = (
        f"{worker.name}, {worker.slots} slots for {', '.join(worker.queues)}, "
        f"heard {in_words(max(0, worker.silent_for))} ago"
    )
    about = f"worker {worker.id}"
    if worker.trouble is not None:
        return Finding(about, "wrong", f"{words}; {worker.trouble}")
    if worker.draining:
        return Finding(about, "note", f"{words}; it drains")
    if worker.listening is False:
        return Finding(about, "note", f"{words}; it hears no notifications, and polls")
    return Finding(about, "ok", words)


def _queue(queue: QueueRow, max_wait: float | None) -> Finding:
    about = f"queue {queue.name}"
    age = max(0, queue.oldest_ready_age or 0)
    words = f"{queue.ready} ready, {queue.scheduled} scheduled, {queue.running} running"
    if queue.blocked:
        words += f", {queue.blocked} blocked"
    if queue.oldest_ready_age is not None:
        words += f", the oldest ready for {in_words(age)}"
    limits = limits_in_words(queue.concurrency, queue.rate, queue.burst)
    limited = f"; limited to {limits}" if limits else ""
    if queue.paused_at is not None:
        pause = pause_in_words(queue.paused_by, queue.pause_reason, queue.paused_for)
        return Finding(about, "note", f"{words}{limited}; paused {pause}")
    if max_wait is not None and age > max_wait:
        return Finding(about, "wrong", f"{words}, longer than {in_words(max_wait)}{limited}")
    return Finding(about, "ok", f"{words}{limited}")


def _paused(task: ControlRow) -> Finding:
    pause = pause_in_words(task.paused_by, task.pause_reason, task.paused_for)
    return Finding(f"task {task.name}", "note", f"paused {pause}")


def _stranded(task: str, count: int) -> Finding:
    return Finding(
        f"task {task}",
        "wrong",
        f"{count} ready {'job' if count == 1 else 'jobs'}, and no live worker knows the task and "
        "serves the queue",
    )
