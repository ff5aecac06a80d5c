"""A claimed job on this worker: the state of its attempt, and the outcome if it raised."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from headway.core import failure
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.duration import in_words
from headway.core.retry import Retry
from headway.core.verdict import Broke, Outcome, Raised, Stopped
from headway.engine.health.loop_block import LoopBlock
from headway.engine.running.threads import Abandoned
from headway.store.rows import Claim

Reason = Literal["timeout", "cancel", "lost", "shutdown"]


@dataclass(slots=True, eq=False)
class RunningJob:
    """A claimed job and the state of its attempt."""

    claim: Claim
    definition: Definition
    since: float
    timeout: float | None = None
    policy: Retry | None = None
    entered: bool = False
    """Its coroutine has begun. Cancelling it before that would end it without a verdict."""
    started: bool = False
    """The handler has begun."""
    alone: bool = False
    """It is a suspect that no child process can run, so it runs while no other job does."""
    isolated: bool = False
    """It is a suspect and runs in a child process."""
    task: asyncio.Task[None] | None = None
    reason: Reason | None = None
    """Why it must stop, or None."""
    options: dict[str, Any] | None = None
    """The options of the call that made the job, if it had any."""
    context: Context | None = None
    settling: bool = False
    """Its own transaction is being committed, so it can no longer be stopped."""
    next: Claim | None = None
    """The same job at its next step, which starts when this attempt has ended."""
    timer: asyncio.TimerHandle | None = None
    times_out_at: datetime | None = None
    """When it times out by a fixed clock, which may be moved there before its timer ends."""
    abandoned: asyncio.Future[Any] | None = None
    """Done when an abandoned thread ends."""
    blocked: LoopBlock | None = None
    """The newest block of the event loop during this attempt."""


class JobOwner(Protocol):
    """Runs jobs: the executor of a worker, or a child process."""

    def stop(self, job_id: str, reason: Reason) -> None:
        """Stop a job, if it runs here."""

    def note(self, claim: Claim, progress: dict[str, Any]) -> None:
        """Take the progress that a handler reported."""


class AttemptEvents(Protocol):
    """The reports of a child process about the attempt that it runs."""

    def begun(self) -> None:
        """The handler begins."""

    def progressed(self, progress: dict[str, Any]) -> None:
        """The handler reported its progress."""


class Ended(Exception):
    """The attempt ended with an outcome that is neither a value nor an exception of the handler."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("the worker ended the attempt")
        self.outcome = outcome


def ended_by(running: RunningJob, error: BaseException) -> Outcome:
    """Return the outcome of an attempt that ended with this exception."""
    if isinstance(error, Ended):
        return error.outcome
    if isinstance(error, Abandoned):
        running.abandoned = error.done
    if isinstance(error, Abandoned | asyncio.CancelledError) and (outcome := _stopped(running)):
        return outcome
    if running.blocked is not None:
        # Errors are grouped by message, so this is a note, which is shown below the traceback.
        with suppress(Exception):
            error.add_note(f"headway: {running.blocked.seen_by(running.claim.id)}")
    return Raised(error)


def _stopped(running: RunningJob) -> Outcome | None:
    """Return the outcome of an attempt that was stopped, or None if it was not stopped."""
    match running.reason:
        case "timeout":
            words = f"timed out after {in_words(running.timeout or 0)}"
            if running.blocked is not None:
                words += f"; {running.blocked.seen_by(running.claim.id)}"
            return Broke(failure.envelope(failure.TIMED_OUT, words), again=True)
        case "cancel":
            return Stopped("cancel")
        case "shutdown" | "lost":
            # Of a lost claim nothing is written anyway: the settling finds it gone.
            return Stopped("shutdown")
        case None:
            return None  # a library raised CancelledError: an error like others
