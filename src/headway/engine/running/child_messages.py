"""The messages between a worker and its child processes: one request, then progress, then one reply.

All of them are JSON over a pipe. Exceptions stay in the child: it decides whether the job is tried again,
and sends an error envelope.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from headway.core import codec, failure
from headway.core.duration import seconds
from headway.core.failure import Envelope
from headway.core.flow import Advance
from headway.core.retry import Retry
from headway.core.verdict import Broke, Moved, Outcome, Raised, Returned, Stopped, Verdict
from headway.engine.running.transactional import SettledInTransaction
from headway.errors import Fatal, Snooze
from headway.store.documents import NewJob
from headway.store.rows import Claim


@dataclass(slots=True)
class Request:
    """A claimed job for a child to run."""

    claim: Claim
    module: str
    """The module of the definition, for a child that does not have the app."""
    name: str
    timeout: float | None = None
    """Seconds until the worker kills the child. The context's deadline follows from it."""
    worker: int = 0
    """The id under which the job was claimed."""
    now: datetime | None = None
    """The worker's fixed clock, or None in production."""


@dataclass(slots=True)
class ChildReply:
    """The outcome of an attempt in a child."""

    result: bytes | None = None
    advance: Advance | None = None
    carried: bytes | None = None
    children: list[NewJob] | None = None
    snooze: float | None = None
    stopped: Literal["cancel", "shutdown"] | None = None
    error: Envelope | None = None
    again: bool = False
    settled: bool = False
    """The child has settled the attempt itself."""


@dataclass(slots=True)
class Message:
    """A message from a child. Only one of its fields is set."""

    begun: bool = False
    """The child has found the definition. If it dies from now on, the job is to blame."""
    settling: bool = False
    """The child is about to commit the attempt, which can no longer be stopped."""
    progress: dict[str, Any] | None = None
    reply: ChildReply | None = None


_REQUEST = codec.Shape[Request](Request)
_MESSAGE = codec.Shape[Message](Message)


def encode(message: Request | Message) -> bytes:
    """Return a message as bytes for the pipe."""
    return codec.encode_document(message).encode()


def request_in(received: bytes) -> Request:
    """Return the request that a child received."""
    return _REQUEST.decode(received)


def message_in(received: bytes) -> Message:
    """Return the message that a worker received."""
    return _MESSAGE.decode(received)


def reply_of(outcome: Outcome | SettledInTransaction, policy: Retry) -> ChildReply:
    """Return the reply for an outcome. `policy` decides which errors are tried again."""
    match outcome:
        case Returned(result, carried, children):
            return ChildReply(result=result, carried=carried, children=children)
        case Moved(move, carried, children):
            return ChildReply(advance=move, carried=carried, children=children)
        case SettledInTransaction(verdict):
            return replace(_reply_of_success(verdict), settled=True)
        case Stopped(by):
            return ChildReply(stopped=by)
        case Broke(error, again):
            return ChildReply(error=error, again=again)
        case Raised(Snooze() as snooze):
            return _reply_of_snooze(snooze)
        case Raised(raised):
            again = not isinstance(raised, Fatal) and policy.covers(raised)
            return ChildReply(error=failure.envelope_of(raised), again=again)


def outcome_in(reply: ChildReply) -> Outcome | SettledInTransaction:
    """Return the outcome in a child's reply."""
    if reply.settled:
        kind: Literal["succeed", "advance"] = "succeed" if reply.advance is None else "advance"
        verdict = Verdict(kind, result=reply.result, advance=reply.advance)
        verdict.carried, verdict.children = reply.carried, reply.children
        return SettledInTransaction(verdict)
    if reply.error is not None:
        return Broke(reply.error, reply.again)
    if reply.snooze is not None:
        return Raised(Snooze(reply.snooze))
    if reply.stopped is not None:
        return Stopped(reply.stopped)
    if reply.advance is not None:
        return Moved(reply.advance, reply.carried, reply.children)
    assert reply.result is not None, "a reply without anything else has a result"
    return Returned(reply.result, reply.carried, reply.children)


def _reply_of_success(verdict: Verdict) -> ChildReply:
    return ChildReply(
        result=verdict.result,
        advance=verdict.advance,
        carried=verdict.carried,
        children=verdict.children,
    )


def _reply_of_snooze(snooze: Snooze) -> ChildReply:
    try:
        return ChildReply(snooze=seconds(snooze.delay, name="Snooze"))
    except Exception as error:
        return ChildReply(error=failure.envelope_of(error))
