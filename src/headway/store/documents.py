"""Documents that travel to the database: new jobs, claims to make, verdicts to settle."""

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
    """A job to insert: the type new_job of the schema. `delay`, `ttl` and `period` are seconds."""

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

    def with_header(self, name: str, value: str) -> NewJob:
        """Return the same job with another header."""
        return msgspec.structs.replace(self, headers={**(self.headers or {}), name: value})


_NEW_JOBS = codec.Shape[list[NewJob]](list[NewJob])


def new_jobs(document: str) -> list[NewJob]:
    """Return the jobs of a document that was made to insert them."""
    return _NEW_JOBS.decode(document)


Hint = tuple[str, int, str]
"""A lane that may have work for a worker: a queue, a priority, and the state in which jobs arrived."""


@dataclass(frozen=True, slots=True)
class PlainShape:
    """The fields that plain jobs of one call share. They differ in their id and input."""

    queue: str
    task: str
    step: str
    priority: int
    max_attempts: int

    @property
    def hints(self) -> tuple[Hint, ...]:
        """Where these jobs arrive."""
        return ((self.queue, self.priority, "r"),)

    def job(self, job_id: str, input_: bytes) -> NewJob:
        """Return a job of this shape as others are made."""
        return NewJob(
            id=job_id,
            queue=self.queue,
            task=self.task,
            step=self.step,
            priority=self.priority,
            max_attempts=self.max_attempts,
            input=codec.Raw(input_),
        )


def plain_jobs(ids: Sequence[str], inputs: Sequence[bytes]) -> str:
    """Return the document of enqueue_alike.sql. The ids and the inputs were made here, and checked."""
    rows = [
        b'{"id":"%b","input":%b}' % (job_id.encode(), input_)
        for job_id, input_ in zip(ids, inputs, strict=True)
    ]
    return (b"[" + b",".join(rows) + b"]").decode()


def hints_of(jobs: Sequence[NewJob]) -> tuple[Hint, ...]:
    """Return where these jobs arrive. The database's clock decides whether `at` has come: both then."""
    found = set[Hint]()
    for job in jobs:
        if job.at is not None or job.delay:
            found.add(("", 0, "s"))
        if not job.delay:
            lane = (job.queue, job.priority, "r")
            found.add(lane if job.key is None else ("", 0, "b"))
    return tuple(found)


class Ask(msgspec.Struct):
    """One line of a claim: at most `most` jobs of these handlers at one priority, after the cursor.

    `alone` marks a line that has a single handler, as a handler with a limit must have."""

    priority: int
    cursor: int
    most: int
    handlers: tuple[str, ...]
    alone: bool = False


class Share(msgspec.Struct):
    """A queue's part of a claim: at most `most` jobs over its lines, in their order."""

    queue: str
    most: int
    lines: list[Ask]


@dataclass(slots=True)
class Settled:
    """A verdict about a claim, on its way to the database."""

    claim: Claim
    verdict: Verdict

    @property
    def touched_keys(self) -> list[str]:
        """Return the concurrency keys under which this verdict may free room or need it."""
        key, move = self.claim.key, self.verdict.advance
        keys = [] if key is None else [key]
        if move is not None and move.key is not None and move.key != key:
            keys.append(move.key)
        return keys


# One of these is made for every verdict. Structs are encoded many times faster than dictionaries, and a
# field without a value is not sent. The fields are the columns of the `verdict` that each SQL file reads.


class _Finish(msgspec.Struct, omit_defaults=True):
    job_id: str
    claim: int
    state: str
    result: codec.Raw | None = None
    error: Envelope | None = None
    carried: codec.Raw | None = None
    children: list[NewJob] | None = None


class _Advance(msgspec.Struct, omit_defaults=True):
    job_id: str
    claim: int
    step: str
    delay: float
    queue: str
    priority: int
    max_attempts: int
    ordered: bool
    input: codec.Raw
    key: str | None = None
    key_limit: int | None = None
    carried: codec.Raw | None = None
    children: list[NewJob] | None = None


class _Requeue(msgspec.Struct, omit_defaults=True):
    job_id: str
    claim: int
    delay: float
    given_back: bool
    keeps_place: bool
    new_crashes: int | None = None
    error: Envelope | None = None


_FINAL = {"succeed": "d", "fail": "f", "cancel": "c"}


def finish(settled: Sequence[Settled]) -> str:
    """Return the document of finish.sql."""
    return codec.encode_document([_finish(s.claim, s.verdict) for s in settled])


def advance(settled: Sequence[Settled]) -> str:
    """Return the document of advance.sql."""
    return codec.encode_document([_advance(s.claim, s.verdict) for s in settled])


def requeue(settled: Sequence[Settled]) -> str:
    """Return the document of requeue.sql."""
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
        job_id=claim.id,
        claim=claim.number,
        step=move.step,
        delay=move.delay,
        queue=move.queue,
        priority=move.priority,
        max_attempts=move.max_attempts,
        key=move.key,
        key_limit=move.key_limit,
        ordered=move.ordered,
        input=codec.Raw(move.input),
        carried=_raw(carried),
        children=verdict.children,
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
