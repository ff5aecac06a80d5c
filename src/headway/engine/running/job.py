"""A claimed job on this worker: what is known of its attempt, and what it came to when it raised."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.core import failure
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.duration import in_words
from headway.core.retry import Retry
from headway.core.verdict import Broke, Outcome, Raised, Stopped
from headway.engine.health.block import Block
from headway.engine.running.threads import Abandoned
from headway.store.rows import Claim

Reason = Literal["timeout", "cancel", "lost", "shutdown"]


@dataclass(slots=True, eq=False)
class Running:
    """A claimed job and what is known of its attempt so far."""

    claim: Claim
    definition: Definition
    since: float
    timeout: float | None = None
    policy: Retry | None = None
    entered: bool = False
    """Its coroutine has begun: before that, cancelling it would end it without a verdict."""
    started: bool = False
    """The handler has begun."""
    alone: bool = False
    """It runs while nothing else does: a suspect that no child process can run."""
    isolated: bool = False
    """It runs in a child process: a process died while it ran, and nobody knows why."""
    task: asyncio.Task[None] | None = None
    reason: Reason | None = None
    """Why it is to stop, if it is."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Those that the job brought."""
    context: Context | None = None
    settling: bool = False
    """Its own transaction is being committed: nobody can stop it any more."""
    next: Claim | None = None
    """The same job at its next step, to be started when this has ended."""
    timer: asyncio.TimerHandle | None = None
    abandoned: asyncio.Future[Any] | None = None
    """Ends when a thread that would not stop does."""
    blocked: Block | None = None
    """The newest time in which the event loop did not turn while this ran."""


def ended_by(running: Running, error: BaseException) -> Outcome:
    """The outcome of an attempt that ended with this exception."""
    if isinstance(error, Abandoned):
        running.abandoned = error.done
    if isinstance(error, Abandoned | asyncio.CancelledError) and (outcome := _stopped(running)):
        return outcome
    if running.blocked is not None:
        # Not in its message, by which errors are grouped: a note is shown below the traceback.
        with suppress(Exception):
            error.add_note(f"headway: {running.blocked.seen_by(running.claim.id)}")
    return Raised(error)


def _stopped(running: Running) -> Outcome | None:
    """The outcome of an attempt that was stopped; none if nobody stopped it."""
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
            return None  # the handler raised CancelledError by itself: an error like others
