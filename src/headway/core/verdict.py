"""Turns the outcome of an attempt into a verdict about the job. Pure.

The executor reports an `Outcome`; `decide` turns it into a `Verdict`; the settler writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from headway.core import failure
from headway.core.duration import seconds
from headway.core.failure import Envelope
from headway.core.flow import Advance
from headway.core.retry import Retry
from headway.errors import Fatal, Snooze

Kind = Literal["succeed", "fail", "cancel", "advance", "retry", "snooze", "release"]


# Every job makes one or two of these. A frozen dataclass takes twice as long to make.
@dataclass(slots=True)
class Returned:
    """The handler returned. `result` is its value as JSON."""

    result: bytes
    carried: bytes | None = None
    """A flow's state, if it must be written."""
    children: list[Any] | None = None
    """Jobs that the handler enqueued. They exist if it succeeds."""


@dataclass(slots=True)
class Moved:
    """The handler is a flow's step and returned the next step."""

    advance: Advance
    carried: bytes | None = None
    children: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler, or its preparation, raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Broke:
    """The attempt ended without an exception from the handler."""

    error: Envelope
    again: bool
    """Whether another attempt could end differently."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler was stopped: the job was cancelled, or the worker shuts down."""

    by: Literal["cancel", "shutdown"]


Outcome = Returned | Moved | Raised | Broke | Stopped


@dataclass(slots=True)
class Verdict:
    """The decision about a job after an attempt. `delay`, in seconds, applies to retry and snooze."""

    kind: Kind
    result: bytes | None = None
    error: Envelope | None = None
    delay: float = 0.0
    advance: Advance | None = None
    carried: bytes | None = None
    children: list[Any] | None = None
    crashed: bool = False
    """The job's process died. The retry counts as a crash, not as an attempt."""
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    """The exception of a failed attempt, if it was raised in this process. It is not stored."""

    @property
    def size(self) -> int:
        """About how many bytes it stores."""
        size = len(self.result or b"") + len(self.carried or b"")
        if self.advance is not None:
            size += len(self.advance.input)
        if self.children is not None:
            size += sum(len(memoryview(child.input)) for child in self.children)
        return size


RELEASE = Verdict("release")
CANCEL = Verdict("cancel", error=failure.envelope(failure.CANCELLED, "cancelled while it ran"))


def decide(
    outcome: Outcome,
    policy: Retry,
    attempt: int,
    max_attempts: int,
    chance: float,
    crashes: int = 0,
) -> Verdict:
    """Return the verdict for a job whose `attempt` ended in `outcome`, after `crashes` in a row.

    Total: there is a verdict for every outcome.
    """
    if isinstance(outcome, Returned):  # most jobs; a pattern of the match would take twice as long
        return Verdict(
            "succeed", result=outcome.result, carried=outcome.carried, children=outcome.children
        )
    match outcome:
        case Moved(move, carried, children):
            return Verdict("advance", advance=move, carried=carried, children=children)
        case Stopped("cancel"):
            return CANCEL
        case Stopped():
            return RELEASE
        case Broke({"type": failure.PROCESS_DIED} as error):
            return _crashed(error, policy, crashes + 1, chance)
        case Broke(error, again):
            return _after(error, again, policy, attempt, max_attempts, chance)
        case Raised(Snooze() as snooze):
            return _snoozed(snooze)
        case Raised(error):
            again = not isinstance(error, Fatal) and policy.covers(error)
            envelope = failure.envelope_of(error)
            verdict = _after(envelope, again, policy, attempt, max_attempts, chance)
            verdict.exception = error
            return verdict


def _crashed(error: Envelope, policy: Retry, crashes: int, chance: float) -> Verdict:
    """Return the verdict for a job that killed its process. Crashes are counted separately."""
    if crashes >= policy.max_crashes:
        return Verdict("fail", error=error)
    verdict = _after(error, True, policy, crashes, policy.max_crashes, chance)
    verdict.crashed = verdict.kind == "retry"
    return verdict


def _after(
    error: Envelope, again: bool, policy: Retry, attempt: int, max_attempts: int, chance: float
) -> Verdict:
    if not again or attempt >= max_attempts:
        return Verdict("fail", error=error)
    try:
        return Verdict("retry", error=error, delay=policy.delay(attempt, chance))
    except BaseException as broken:
        # The user's backoff function raised. That must not lose the job: it fails with both errors,
        # because no delay for another attempt is known.
        why = failure.envelope_of(broken)
        note = f"{error.get('message', '')} (its backoff function raised {why['type']}: {why['message']})"
        return Verdict("fail", error=error | {"message": note})


def _snoozed(snooze: Snooze) -> Verdict:
    try:
        return Verdict("snooze", delay=seconds(snooze.delay, name="Snooze"))
    except Exception as error:  # an invalid delay, or a subclass that never set one
        return Verdict("fail", error=failure.envelope_of(error))
