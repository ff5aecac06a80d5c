"""Operations that take more than one statement, as generators of statements.

A script yields statements and is sent their answers; `Client.play` and `Client.play_sync` run the
same one, so that what it decides is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar
from uuid import UUID

from headway.core.state import State
from headway.errors import DatabaseUnavailable, JobNotFound
from headway.store import inspect, jobs
from headway.store.connect import Target
from headway.store.jobs import Moment
from headway.store.rows import JobRow, OutcomeRow
from headway.store.statement import Statement

R = TypeVar("R")
Script = Generator[Statement[Any], Any, R]

_TRIES = 20
_REVIVABLE = (State.SCHEDULED, State.FAILED, State.CANCELLED, State.EXPIRED)


def cancel(target: Target, job_id: UUID, now: Moment) -> Script[bool]:
    """Cancels a job or asks it to stop; false if it had ended already.

    A job that changes hands at the same moment is seen by neither branch of the statement; then it
    is asked again.
    """
    for _ in range(_TRIES):
        if (yield jobs.cancel(target, job_id, now)):
            return True
        outcome: OutcomeRow | None = yield jobs.outcome(job_id)
        if outcome is None:
            raise JobNotFound(job_id)
        if outcome.state.finished:
            return False
    raise DatabaseUnavailable(f"job {job_id} changes hands too fast to be cancelled; try again")


def revive(target: Target, job_id: UUID, from_step: str | None, now: Moment) -> Script[bool]:
    """Makes a job run again; false if there is nothing to repeat: it waits, runs or succeeded, or
    has never been at `from_step`."""
    for _ in range(_TRIES):
        if (yield jobs.revive(target, job_id, from_step, now)):
            return True
        outcome: OutcomeRow | None = yield jobs.outcome(job_id)
        if outcome is None:
            raise JobNotFound(job_id)
        if from_step is not None or outcome.state not in _REVIVABLE:
            return False
    raise DatabaseUnavailable(f"job {job_id} changes hands too fast to be retried; try again")


def edit(job_id: UUID, encode: Callable[[str, str], bytes]) -> Script[bool]:
    """Gives a job another input; false if it runs or succeeded. `encode` makes the input for a task
    and step, which may change until it is written."""
    for _ in range(_TRIES):
        row: JobRow | None = yield inspect.job(job_id)
        if row is None:
            raise JobNotFound(job_id)
        if row.state in (State.RUNNING, State.SUCCEEDED):
            return False
        if (yield jobs.edit(job_id, row.step, encode(row.task, row.step))):
            return True
    raise DatabaseUnavailable(f"job {job_id} changes hands too fast to be edited; try again")


def ended(job_id: UUID) -> Script[OutcomeRow | None]:
    """How a job ended; none while it lives."""
    outcome: OutcomeRow | None = yield jobs.outcome(job_id)
    if outcome is None:
        raise JobNotFound(job_id)
    return outcome if outcome.state.finished else None


def await_end(job_id: UUID, now: Moment) -> Script[OutcomeRow | None]:
    """As `ended`, and whoever ends the job from now on says so."""
    outcome = yield from ended(job_id)
    if outcome is None and (yield jobs.await_end(job_id, now)):
        outcome = yield from ended(job_id)
    return outcome
