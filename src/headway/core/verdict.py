"""From what an attempt came to, to what becomes of the job. Pure.

The executor reports an `Outcome`; `decide` turns it into a `Verdict`; the settler writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from headway.core import failure
from headway.core.duration import seconds
from headway.core.failure import Envelope
from headway.core.flow import Advance
from headway.core.retry import Retry
from headway.errors import Fatal, Snooze

Kind = Literal["succeed", "fail", "cancel", "advance", "retry", "snooze", "release"]


# One or two of these are made for every job; frozen ones would take twice as long to make.
@dataclass(slots=True)
class Returned:
    """The handler returned; `result` is its value as JSON."""

    result: bytes
    carried: bytes | None = None
    """A flow's state, if it is to be written."""
    children: list[Any] | None = None
    """Jobs that the handler made, to exist with its success."""


@dataclass(slots=True)
class Moved:
    """The handler, a flow's step, returned where to go next."""

    advance: Advance
    carried: bytes | None = None
    children: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler, or what prepares it, raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Broke:
    """The attempt ended with no exception of the handler's to show for it."""

    error: Envelope
    again: bool
    """Whether another attempt could end differently."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler was stopped on request: cancelled by someone, or by a worker shutting down."""

    by: Literal["cancel", "shutdown"]


Outcome = Returned | Moved | Raised | Broke | Stopped


@dataclass(slots=True)
class Verdict:
    """What is to become of a job. `delay` counts for retry and snooze, in seconds."""

    kind: Kind
    result: bytes | None = None
    error: Envelope | None = None
    delay: float = 0.0
    advance: Advance | None = None
    carried: bytes | None = None
    children: list[Any] | None = None
    crashed: bool = False
    """Of a retry: the job's process died. It costs a crash, not an attempt."""

    @property
    def size(self) -> int:
        """The bytes of what it stores, roughly."""
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
    """Return what becomes of a job whose `attempt` ended in `outcome`, after `crashes` in a row.

    Total: it answers for everything.
    """
    match outcome:
        case Returned(result, carried, children):
            return Verdict("succeed", result=result, carried=carried, children=children)
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
            return _after(failure.envelope_of(error), again, policy, attempt, max_attempts, chance)


def _crashed(error: Envelope, policy: Retry, crashes: int, chance: float) -> Verdict:
    """Return what becomes of a job that killed its process: that is counted by itself."""
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
        # A backoff function of the user's that raises must not lose the job: its error is kept, and
        # the job fails rather than being tried at a moment nobody chose.
        why = failure.envelope_of(broken)
        note = f"{error.get('message', '')} (its backoff function raised {why['type']}: {why['message']})"
        return Verdict("fail", error=error | {"message": note})


def _snoozed(snooze: Snooze) -> Verdict:
    try:
        return Verdict("snooze", delay=seconds(snooze.delay, name="Snooze"))
    except Exception as error:  # no duration, or a subclass that never said one
        return Verdict("fail", error=failure.envelope_of(error))
