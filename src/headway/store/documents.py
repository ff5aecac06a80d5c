"""What travels to the database, as values: new jobs, what is asked for, what is settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from headway.core import codec
from headway.core.failure import Envelope
from headway.core.verdict import Verdict
from headway.store.rows import Claim


class NewJob(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job to be made, as the type new_job of the schema. `delay`, `ttl`, `period` are seconds."""

    id: str
    queue: str
    task: str
    max_attempts: int
    input: codec.Raw
    priority: int = 0
    step: str = ""
    at: datetime | None = None
    delay: float | None = None
    ttl: float | None = None
    key: str | None = None
    key_limit: int | None = None
    ordered: bool = False
    unique_key: str | None = None
    on_taken: str | None = None
    until_claimed: bool = False
    period: float | None = None
    options: dict[str, Any] | None = None
    headers: dict[str, str] | None = None
    carried: codec.Raw | None = None


class Ask(msgspec.Struct):
    """One line of a claim: up to `n` jobs of the handlers `t` at priority `p`, behind the cursor `s`.
    `o` is for a handler that has the line to itself, as one with a limit must."""

    p: int
    s: int
    n: int
    t: tuple[str, ...]
    o: bool = False


class Share(msgspec.Struct):
    """A queue's part of a claim: at most `n` jobs over its lines, in their order."""

    q: str
    n: int
    l: list[Ask]  # noqa: E741


@dataclass(slots=True)
class Settled:
    """A verdict about a claim, on its way to the database."""

    claim: Claim
    verdict: Verdict

    @property
    def touched_keys(self) -> list[str]:
        """The concurrency keys under which this may free room, or look for some."""
        key, move = self.claim.key, self.verdict.advance
        keys = [] if key is None else [key]
        if move is not None and move.key is not None and move.key != key:
            keys.append(move.key)
        return keys


# One of these is made for every verdict: structs are encoded many times faster than dictionaries, and
# what is not there is not sent. The letters are the columns of the SQL files.


class _Finish(msgspec.Struct, omit_defaults=True):
    i: str
    c: int
    s: str
    o: codec.Raw | None = None
    e: Envelope | None = None
    w: codec.Raw | None = None
    h: list[NewJob] | None = None


class _Advance(msgspec.Struct, omit_defaults=True):
    i: str
    c: int
    t: str
    d: float
    q: str
    p: int
    m: int
    o: bool
    n: codec.Raw
    k: str | None = None
    l: int | None = None  # noqa: E741
    w: codec.Raw | None = None
    h: list[NewJob] | None = None


class _Requeue(msgspec.Struct, omit_defaults=True):
    i: str
    c: int
    d: float
    b: bool
    f: bool
    k: int | None = None
    e: Envelope | None = None


_FINAL = {"succeed": "d", "fail": "f", "cancel": "c"}


def finish(settled: Sequence[Settled]) -> str:
    """The verdicts of finish.sql."""
    return codec.encode_document([_finish(s.claim, s.verdict) for s in settled])


def advance(settled: Sequence[Settled]) -> str:
    """The verdicts of advance.sql."""
    return codec.encode_document([_advance(s.claim, s.verdict) for s in settled])


def requeue(settled: Sequence[Settled]) -> str:
    """The verdicts of requeue.sql."""
    return codec.encode_document([_requeue(s.claim, s.verdict) for s in settled])


def _finish(claim: Claim, verdict: Verdict) -> _Finish:
    return _Finish(
        claim.id,
        claim.number,
        _FINAL[verdict.kind],
        _raw(verdict.result),
        verdict.error,
        _raw(verdict.carried),
        verdict.children,
    )


def _advance(claim: Claim, verdict: Verdict) -> _Advance:
    move = verdict.advance
    assert move is not None, "only a verdict that advances gets here"
    carried = verdict.carried or (claim.carried.encode() if claim.carried else None)
    return _Advance(
        i=claim.id,
        c=claim.number,
        t=move.step,
        d=move.delay,
        q=move.queue,
        p=move.priority,
        m=move.max_attempts,
        k=move.key,
        l=move.key_limit,
        o=move.ordered,
        n=codec.Raw(move.input),
        w=_raw(carried),
        h=verdict.children,
    )


def _requeue(claim: Claim, verdict: Verdict) -> _Requeue:
    return _Requeue(
        claim.id,
        claim.number,
        verdict.delay,
        verdict.kind != "retry" or verdict.crashed,
        verdict.kind == "release",
        1 if verdict.crashed else 0 if verdict.kind == "release" else None,
        verdict.error,
    )


def _raw(encoded: bytes | None) -> codec.Raw | None:
    return None if encoded is None else codec.Raw(encoded)
