"""The compared facts: rows of the database and values of the model, as the same plain tuples."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headway.core.state import State
from headway.store.statements import inspect
from tests.model.controls import Control, Numbers
from tests.model.invariants import Snapshot
from tests.model.job import Job
from tests.model.model import Model
from tests.store.store import Store

_LIVE = (State.READY, State.SCHEDULED, State.BLOCKED, State.RUNNING)
_ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED)


def came_to(row: dict[str, Any]) -> str:
    return row["error"]["type"] if row["error"] else row["letter"]


def compare(seen: Snapshot, model: Model, now: datetime) -> None:
    """The database says what the model says."""
    rows = seen.live | seen.archived
    assert {job_id: of_row(row) for job_id, row in rows.items()} == {
        job.id: of_job(job) for job in model.jobs.values() if job.kept
    }
    assert seen.asked == sorted(model.asked)
    assert seen.unkept == model.unkept.keys()
    attempts = [
        (str(row["job_id"]), row["claim"], row["attempt"], came_to(row)) for row in seen.attempts
    ]
    assert sorted(attempts) == sorted(model.attempts)
    said = model.controls
    assert {name: of_control_row(row, now) for name, row in seen.controls.items()} == {
        name: of_control(control, now) for name, control in said.rows.items()
    }
    assert {key: moment(at) for key, at in seen.spent.items() if at > now} == {
        key: moment(at) for key, at in said.spent(now).items()
    }


def measured(store: Store) -> dict[str, tuple[Any, ...]]:
    """Return the metrics of each queue: its live jobs, since when the oldest is ready, and the ends."""
    return {
        queue.name: (
            (queue.ready, queue.scheduled, queue.blocked, queue.running),
            (queue.oldest_ready_age, queue.newest_ready_age),
            (queue.succeeded, queue.failed, queue.cancelled, queue.expired),
        )
        for queue in store.run(inspect.metrics(None, store.now))
    }


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
    place = (row["worker_id"], row["crashes"], row["seq"], row["holds"], row["ordered"])
    runs = row["state"] is State.RUNNING
    counts = (runs and row["rated_in"] is not None, runs and row["limited"])
    return (*about, row["key"], row["unique_key"], *place, row["queue"], row["key_limit"], *counts)


def of_job(job: Job) -> tuple[Any, ...]:
    about = (job.state, job.attempt, job.claim, job.run_at, job.expires_at, job.step)
    keys = (job.line.key, job.unique)
    if job.state.finished:
        return (*about, *keys)
    place = (job.worker, job.crashes, job.seq, job.holds, job.line.ordered)
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


def of_control_row(row: dict[str, Any], now: datetime) -> tuple[Any, ...]:
    numbers = (row["concurrency"], row["rate"], row["burst"])
    declared = row["declared"] and tuple(row["declared"][part] for part in Numbers._fields)
    paused = row["paused_at"] is not None
    until = row["paused_until"] if paused else None
    spent = _ahead(row["spent_until"], now) if row["rate"] is not None else None
    return (paused, until, numbers, declared, row["changed_at"] is not None, spent)


def of_control(control: Control, now: datetime) -> tuple[Any, ...]:
    until = control.until if control.paused else None
    spent = _ahead(control.spent_until, now) if control.numbers.rate is not None else None
    numbers = tuple(control.numbers)
    declared = control.declared and tuple(control.declared)
    return (control.paused, until, numbers, declared, control.by_person, spent)


def _ahead(spent: datetime | None, now: datetime) -> float | None:
    """A debt that is paid is forgotten some time."""
    return moment(spent) if spent is not None and spent > now else None


def moment(at: datetime | None) -> float | None:
    """Milliseconds are as exact as tokens are compared."""
    return None if at is None else round(at.timestamp(), 3)
