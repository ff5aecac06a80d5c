"""Rate the figures of a fleet as ok, as a note, or as wrong. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headway.cli.output import counted, pause_in_words
from headway.core.duration import in_words
from headway.core.finding import Finding, clock_finding
from headway.core.info import Control, QueueInfo, ServerInfo, WorkerInfo
from headway.core.limits import in_words as limits_in_words
from headway.errors import SchemaMismatch


def examine(
    place: str,
    server: ServerInfo,
    acquired_in: float,
    answered_in: float,
    apart: float,
    schema: str,
    queues: Sequence[QueueInfo],
    workers: Sequence[WorkerInfo],
    stranded: Mapping[str, int],
    controls: Sequence[Control],
    max_wait: float | None,
) -> list[Finding]:
    """Return all findings about a database that answers and has the right schema."""
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
        *_versions(alive),
        *_code_of_queues(alive),
        *(_queue(queue, max_wait) for queue in queues),
        *(_stranded(task, count) for task, count in stranded.items() if alive),
        *(_paused(said) for said in controls if said.kind == "task" and said.paused),
    ]


def schema_is_wrong(error: SchemaMismatch, place: str) -> list[Finding]:
    return [
        Finding("database", "ok", f"{place}; reachable"),
        Finding("schema", "wrong", str(error)),
    ]


def _workers(alive: Sequence[WorkerInfo], queues: Sequence[QueueInfo]) -> list[Finding]:
    found = [_worker(worker) for worker in alive]
    if not all(worker.draining for worker in alive):
        return found
    waiting = sum(queue.ready + queue.scheduled + queue.blocked for queue in queues)
    if not alive:  # draining workers would finish running jobs
        waiting += sum(queue.running for queue in queues)
    which = "every live worker is draining" if alive else "no worker is alive"
    start = "start one: headway worker module:hw"
    if waiting:
        jobs = counted(waiting, "unfinished job")
        return [*found, Finding("workers", "wrong", f"{which}, with {jobs}; {start}")]
    return [*found, Finding("workers", "note", f"{which}; {start}")]


_SQL = "sql"
"""The version of a consumer in SQL: it has neither a library nor code of tasks."""


def _versions(alive: Sequence[WorkerInfo]) -> list[Finding]:
    """Return a note if live workers run several versions of Headway, as they do during a deploy."""
    count = Counter(worker.version for worker in alive if worker.version != _SQL)
    if len(count) < 2:
        return []
    words = ", ".join(f"{counted(count[each], 'worker')} of {each}" for each in sorted(count))
    return [Finding("versions", "note", f"{words}; a deploy is under way, or was left half done")]


def _code_of_queues(alive: Sequence[WorkerInfo]) -> list[Finding]:
    """Return a note for each queue that live workers with different tasks serve."""
    found: list[Finding] = []
    for queue in sorted({queue for worker in alive for queue in worker.queues}):
        serving = [each for each in alive if each.version != _SQL and queue in each.queues]
        known = {task for worker in serving for task in worker.tasks}
        partly = sorted(task for task in known if any(task not in w.tasks for w in serving))
        if not partly:
            continue
        without = [str(w.id) for w in serving if any(task not in w.tasks for task in partly)]
        tasks = ", ".join(partly[:_NAMED]) + (
            f" and {len(partly) - _NAMED} more" if len(partly) > _NAMED else ""
        )
        found.append(
            Finding(
                f"code of {queue}",
                "note",
                f"its workers run different code: not all of them know {tasks} "
                f"(worker {', '.join(without[:_NAMED])})",
            )
        )
    return found


_NAMED = 5


def _worker(worker: WorkerInfo) -> Finding:
    words = (
        f"{worker.name}, {counted(worker.slots, 'slot')}, queues: {', '.join(worker.queues)}; "
        f"last heartbeat {in_words(max(0, worker.silent_for))} ago"
    )
    about = f"worker {worker.id}"
    if worker.trouble is not None:
        return Finding(about, "wrong", f"{words}; {worker.trouble}")
    if worker.draining:
        return Finding(about, "note", f"{words}; draining")
    if worker.listening is False:
        return Finding(about, "note", f"{words}; gets no notifications, so it polls")
    return Finding(about, "ok", words)


def _queue(queue: QueueInfo, max_wait: float | None) -> Finding:
    about = f"queue {queue.name}"
    age = max(0, queue.oldest_ready_age or 0)
    words = f"{queue.ready} ready, {queue.scheduled} scheduled, {queue.running} running"
    if queue.blocked:
        words += f", {queue.blocked} blocked"
    if queue.oldest_ready_age is not None:
        words += f"; the oldest ready job has waited {in_words(age)}"
    limits = limits_in_words(queue.concurrency, queue.rate, queue.burst)
    limited = f"; limit: {limits}" if limits else ""
    if queue.paused_at is not None:
        pause = pause_in_words(queue.paused_by, queue.pause_reason, queue.paused_for)
        return Finding(about, "note", f"{words}{limited}; paused {pause}")
    if max_wait is not None and age > max_wait:
        return Finding(about, "wrong", f"{words}, more than {in_words(max_wait)}{limited}")
    return Finding(about, "ok", f"{words}{limited}")


def _paused(task: Control) -> Finding:
    pause = pause_in_words(task.paused_by, task.pause_reason, task.paused_for)
    return Finding(f"task {task.name}", "note", f"paused {pause}")


def _stranded(task: str, count: int) -> Finding:
    return Finding(
        f"task {task}",
        "wrong",
        f"{counted(count, 'ready job')}, but no live worker has the task and serves its queue",
    )
