"""The job that the current code belongs to, in context variables: `current_job()`.

Asyncio tasks and the threads of handlers inherit it. The variable holds the claim itself, so that a job
pays for no copy of it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from headway.core import codec


class ClaimedJob(Protocol):
    """The facts about a claimed job. Its payloads are JSON."""

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def step(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def headers(self) -> str | None: ...
    @property
    def input(self) -> str: ...


CLAIMED: ContextVar[ClaimedJob | None] = ContextVar("headway_job", default=None)
"""The job whose attempt runs here. In a call for a batch, the first job of it."""
BATCH_SIZE: ContextVar[int] = ContextVar("headway_batch_size", default=1)
"""How many jobs the current call is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """The facts about an attempt, for middleware, event hooks and `current_job`."""

    job_id: UUID
    task: str
    step: str
    """The step of a flow. Empty for a plain task."""
    queue: str
    attempt: int
    """1 on the first try."""
    max_attempts: int
    headers: Mapping[str, str]
    batch_size: int = 1
    """How many jobs one call of a batch task is for. The other fields are those of the first."""
    _input: str = field(default="{}", repr=False)

    @property
    def handler(self) -> str:
        """The task, or `flow/step`."""
        return f"{self.task}/{self.step}" if self.step else self.task

    @property
    def input(self) -> Any:
        """The arguments by name, as they are stored."""
        return codec.decode(self._input)


def info_of(claim: ClaimedJob, batch_size: int = 1) -> JobInfo:
    """Return the facts about a claimed job."""
    return JobInfo(
        job_id=UUID(claim.id),
        task=claim.task,
        step=claim.step,
        queue=claim.queue,
        attempt=claim.attempt,
        max_attempts=claim.max_attempts,
        headers={} if claim.headers is None else codec.decode(claim.headers),
        batch_size=batch_size,
        _input=claim.input,
    )


def current_job() -> JobInfo | None:
    """Return the job whose handler, dependency, middleware or event hook runs here, or None.

    In a handler of a batch it is the first job. A thread that the handler starts itself does not
    inherit it, unless it runs in a copy of the context (`contextvars.copy_context`).

    >>> current_job() is None
    True
    """
    claim = CLAIMED.get()
    return None if claim is None else info_of(claim, BATCH_SIZE.get())


@contextmanager
def as_current(claim: ClaimedJob | None, batch_size: int = 1) -> Generator[None]:
    """Make a job the current one inside the block. None: no job."""
    before, size = CLAIMED.set(claim), BATCH_SIZE.set(batch_size)
    try:
        yield
    finally:
        BATCH_SIZE.reset(size)
        CLAIMED.reset(before)


def without_job() -> Context:
    """Return a copy of the context without the current job, for a task that outlives the job."""
    context = copy_context()
    context.run(CLAIMED.set, None)
    context.run(BATCH_SIZE.set, 1)
    return context
