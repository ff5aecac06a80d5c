"""Why a job is not running: from its row, the queues and the fleet, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.cli.output import ago
from headway.cli.queue import pause_in_words
from headway.core.state import State
from headway.store.rows import JobRow, QueueRow, WorkerRow


def why(
    job: JobRow, queues: Sequence[QueueRow], workers: Sequence[WorkerRow], now: datetime
) -> list[str]:
    """The reasons, most certain first; empty for a job that has ended or runs as it should."""
    match job.state:
        case State.READY:
            return _not_claimed(job, queues, workers)
        case State.SCHEDULED:
            return _not_due(job, workers, now)
        case State.RUNNING:
            return _not_finished(job, workers)
        case _:
            return []


def _not_claimed(
    job: JobRow, queues: Sequence[QueueRow], workers: Sequence[WorkerRow]
) -> list[str]:
    reasons = [
        f"queue {queue.name} is paused {pause_in_words(queue.paused_by, queue.pause_reason)}; "
        f"`headway queue resume {queue.name}` opens it"
        for queue in queues
        if queue.name == job.queue and queue.paused_at is not None
    ]
    alive = [worker for worker in workers if worker.alive]
    serving = [worker for worker in alive if job.queue in worker.queues]
    knowing = [worker for worker in alive if job.task in worker.tasks]
    if not alive:
        return [*reasons, "no worker is alive; start one: headway worker module:hw"]
    if not serving:
        reasons.append(f"no live worker serves queue {job.queue}; start one with -q {job.queue}")
    if not knowing:
        reasons.append(f"no live worker knows task {job.task}; deploy an app that defines it")
    if serving and knowing and not set(map(_id, serving)) & set(map(_id, knowing)):
        reasons.append(f"no live worker that knows task {job.task} serves queue {job.queue}")
    return reasons or ["it waits for a free slot of a worker, behind others of its queue"]


def _not_due(job: JobRow, workers: Sequence[WorkerRow], now: datetime) -> list[str]:
    if job.run_at > now:
        again = f" (attempt {job.attempt} of {job.max_attempts} failed)" if job.attempt else ""
        return [f"it is due {ago(job.run_at, now)}{again}"]
    if any(worker.alive for worker in workers):
        return ["it is due, and a worker is about to make it ready"]
    return ["it is due, but no worker is alive; start one: headway worker module:hw"]


def _not_finished(job: JobRow, workers: Sequence[WorkerRow]) -> list[str]:
    reasons: list[str] = []
    if job.cancelling:
        reasons.append("it was asked to stop")
    if not any(worker.id == job.worker and worker.alive for worker in workers):
        reasons.append(
            f"worker {job.worker} was lost; another one takes the job over, once one is alive"
        )
    return reasons


def _id(worker: WorkerRow) -> int:
    return worker.id
