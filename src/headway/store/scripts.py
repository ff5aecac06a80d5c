"""Operations that take more than one statement, as generators of statements.

A script yields statements and is sent their answers; `Client.play` and `Client.play_sync` run the
same one, so that what it decides is written once.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar
from uuid import UUID

from headway.core.state import State
from headway.errors import DatabaseUnavailable, JobNotFound
from headway.store import jobs
from headway.store.connect import Target
from headway.store.jobs import Moment
from headway.store.rows import OutcomeRow
from headway.store.statement import Statement

R = TypeVar("R")
Script = Generator[Statement[Any], Any, R]

_TRIES = 20


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


def revive(target: Target, job_id: UUID, now: Moment) -> Script[bool]:
    """Makes a job run again; false if there is nothing to repeat: it waits, runs or succeeded."""
    for _ in range(_TRIES):
        if (yield jobs.revive(target, job_id, now)):
            return True
        outcome: OutcomeRow | None = yield jobs.outcome(job_id)
        if outcome is None:
            raise JobNotFound(job_id)
        if outcome.state not in (State.SCHEDULED, State.FAILED, State.CANCELLED, State.EXPIRED):
            return False
    raise DatabaseUnavailable(f"job {job_id} changes hands too fast to be retried; try again")


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
