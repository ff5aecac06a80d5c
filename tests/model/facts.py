"""What is compared: rows of the database and values of the model, each as the same plain tuples."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headway.core.state import State
from tests.model.controls import Control, Numbers
from tests.model.job import Job
from tests.model.model import Model

_LIVE = (State.READY, State.SCHEDULED, State.BLOCKED, State.RUNNING)
_ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED)


def came_to(row: dict[str, Any]) -> str:
    return row["error"]["type"] if row["error"] else row["letter"]


def of_row(row: dict[str, Any]) -> tuple[Any, ...]:
    about = (
        row["state"],
        row["attempt"],
        row["claim"],
        row["run_at"],
        row["expires_at"],
        row["step"],
    )
    if row["state"].finished:
        return (*about, row["key"], row["unique_key"])
    place = (row["worker_id"], row["cancelling"], row["seq"], row["holds"], row["ordered"])
    runs = row["state"] is State.RUNNING
    counts = (runs and row["rated_in"] is not None, runs and row["limited"])
    return (*about, row["key"], row["unique_key"], *place, row["queue"], row["key_limit"], *counts)


def of_job(job: Job) -> tuple[Any, ...]:
    about = (job.state, job.attempt, job.claim, job.run_at, job.expires_at, job.step)
    keys = (job.line.key, job.unique)
    if job.state.finished:
        return (*about, *keys)
    place = (job.worker, job.cancelling, job.seq, job.holds, job.line.ordered)
    runs = job.state is State.RUNNING
    counts = (runs and job.rate is not None, runs and job.limited)
    return (*about, *keys, *place, job.lane.queue, job.line.limit, *counts)


def of_queues(model: Model) -> dict[str, tuple[Any, ...]]:
    queues = {job.lane.queue for job in model.jobs.values() if not job.state.finished}
    queues |= {queue for queue, _ in model.ends}
    queues |= {name for kind, name in model.controls.rows if kind == "queue"}
    found: dict[str, tuple[Any, ...]] = {}
    for queue in queues:
        states = [job.state for job in model.jobs.values() if job.lane.queue == queue]
        ready = [job.run_at for job in model.all(State.READY) if job.lane.queue == queue]
        ages = [(model.now - since).total_seconds() for since in ready]
        found[queue] = (
            tuple(states.count(state) for state in _LIVE),
            (max(ages, default=None), min(ages, default=None)),
            tuple(model.ends[queue, state] for state in _ENDED),
        )
    return found


def of_control_row(row: dict[str, Any]) -> tuple[Any, ...]:
    numbers = (row["concurrency"], row["rate"], row["burst"])
    declared = row["declared"] and tuple(row["declared"][part] for part in Numbers._fields)
    paused = row["paused_at"] is not None
    until = row["paused_until"] if paused else None
    spent = moment(row["spent_until"]) if row["rate"] is not None else None
    return (paused, until, numbers, declared, row["changed_at"] is not None, spent)


def of_control(control: Control) -> tuple[Any, ...]:
    until = control.until if control.paused else None
    spent = moment(control.spent_until) if control.numbers.rate is not None else None
    numbers = tuple(control.numbers)
    declared = control.declared and tuple(control.declared)
    return (control.paused, until, numbers, declared, control.by_person, spent)


def moment(at: datetime | None) -> float | None:
    """Milliseconds are as exact as tokens are compared."""
    return None if at is None else round(at.timestamp(), 3)
