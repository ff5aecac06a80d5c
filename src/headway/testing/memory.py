"""Jobs in memory, for tests without a database: the worker's decisions, one job at a time.

It keeps priorities, delays, retries, steps, unique keys, and expiry. There are no queues to pause, no
limits and no concurrency keys: one job runs at a time, and nothing is rolled back.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from headway._api import direct_call
from headway.core import failure
from headway.core.clock import Clock
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.state import State
from headway.core.verdict import Broke, Outcome, Raised, Verdict, decide
from headway.engine import loop
from headway.engine.running.invoke import Overrides
from headway.engine.running.outcomes import outcome_of, state_of
from headway.errors import InvalidInput, KeyTaken
from headway.store.documents import NewJob
from headway.store.rows import BrokenAttempt, MadeJob

Run = Generator["HandlerCall", Outcome, None]

_WAITING = (State.READY, State.SCHEDULED)
_MIDDLE = 0.5
"""Back-off without chance."""


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """A handler to be called."""

    is_async: bool
    call: Callable[[], Any]
    outcome: Callable[[Any], Outcome]
    """Turns its value into an outcome."""


@dataclass(slots=True, eq=False)
class MemoryJob:
    """A job, with the fields of the table."""

    new: NewJob
    seq: int
    state: State
    run_at: datetime
    created_at: datetime
    task: str
    step: str
    queue: str
    priority: int
    max_attempts: int
    input: bytes
    carried: bytes | None
    attempt: int = 0
    claim: int = 0
    result: bytes | None = None
    error: failure.Envelope | None = None
    progress: dict[str, Any] | None = None
    finished_at: datetime | None = None

    @property
    def handler(self) -> str:
        return f"{self.task}/{self.step}" if self.step else self.task

    @property
    def options(self) -> dict[str, Any]:
        return self.new.options or {}

    def made(self) -> MadeJob:
        """Return the job as it was made."""
        return MadeJob(
            self.new.id, self.task, self.new.queue, self.new.priority, self.state, self.run_at,
            self.new.headers, bytes(self.new.input).decode(),
        )  # fmt: skip


@dataclass(slots=True)
class MemoryJobs:
    """All jobs of one test, and the runs of those that are due."""

    clock: Clock
    find: Callable[[str], tuple[Definition, Overrides, int] | None]
    """Finds a handler, its app's overrides, and the largest result."""
    jobs: dict[str, MemoryJob] = field(default_factory=dict[str, MemoryJob])
    broken: list[BrokenAttempt] = field(default_factory=list[BrokenAttempt])
    raised: dict[tuple[str, int], BaseException] = field(
        default_factory=dict[tuple[str, int], BaseException]
    )
    """The exceptions of broken attempts, by job and claim."""
    settled: dict[str, int] = field(default_factory=dict[str, int])
    _seqs: itertools.count[int] = field(default_factory=itertools.count)
    _taken: dict[tuple[str, str], tuple[str, datetime]] = field(
        default_factory=dict[tuple[str, str], tuple[str, datetime]]
    )
    """Unique keys that outlive their job: by which job, and until when."""

    def make(self, new: Sequence[NewJob]) -> dict[str, str]:
        """Make jobs. Return {asked id: id of the holder} for those whose unique key is taken."""
        taken: dict[str, str] = {}
        for one in new:
            if (holder := self._holder(one)) is not None:
                if one.on_taken == "reject":
                    holder_id = UUID(holder.new.id)
                    words = f"unique key {one.unique_key} of task {one.task} is taken by job {holder_id}"
                    raise KeyTaken(words, holder_id)
                if one.on_taken == "replace" and holder.claim == 0:
                    self.jobs[holder.new.id] = self._job(one, holder.new.id)
                taken[one.id] = holder.new.id
                continue
            self.jobs[one.id] = self._job(one, one.id)
            if one.unique_key is not None and one.period is not None:
                until = self.clock.read() + timedelta(seconds=one.period)
                self._taken[one.task, one.unique_key] = one.id, until
        return taken

    def run(self) -> Run:
        """Run the jobs that are due now: yield each call, and take its outcome."""
        self._expire()
        while (job := self._due()) is not None:
            found = self.find(job.handler)
            assert found is not None, "a job without a handler is not due"
            definition, overrides, most = found
            job.state, job.attempt, job.claim = State.RUNNING, job.attempt + 1, job.claim + 1
            try:
                outcome = yield self._call(job, definition, overrides, most)
            except InvalidInput as error:
                outcome = Broke(failure.envelope_of(error, failure.INVALID_INPUT), again=False)
            if isinstance(outcome, Raised):
                self.raised[job.new.id, job.claim] = outcome.error
            policy = definition.retry
            if "retry" in job.options and "retry" not in definition.own:
                policy = policy.with_stored(job.options["retry"])
            self._settle(job, decide(outcome, policy, job.attempt, job.max_attempts, _MIDDLE))

    def next_moment(self) -> datetime | None:
        """Return when the next job is due."""
        waiting = (job.run_at for job in self.jobs.values() if job.state is State.SCHEDULED)
        return min(waiting, default=None)

    def _job(self, new: NewJob, job_id: str) -> MemoryJob:
        now = self.clock.read()
        due = new.at or now + timedelta(seconds=new.delay or 0)
        new.id = job_id
        return MemoryJob(
            new, next(self._seqs), State.SCHEDULED if due > now else State.READY, due, now,
            new.task, new.step, new.queue, new.priority, new.max_attempts, bytes(new.input),
            None if new.carried is None else bytes(new.carried),
        )  # fmt: skip

    def _holder(self, new: NewJob) -> MemoryJob | None:
        if new.unique_key is None:
            return None
        if new.period is not None:
            job_id, until = self._taken.get((new.task, new.unique_key), ("", self.clock.read()))
            return self.jobs.get(job_id) if until > self.clock.read() else None
        for job in self.jobs.values():
            other = job.new
            if (
                (other.task, other.unique_key) == (new.task, new.unique_key)
                and not job.state.finished
                and not (other.until_claimed and job.claim)
            ):
                return job
        return None

    def _due(self) -> MemoryJob | None:
        now = self.clock.read()
        due = [
            job for job in self.jobs.values()
            if job.state in _WAITING and job.run_at <= now and self.find(job.handler)
        ]  # fmt: skip
        return min(due, key=lambda job: (-job.priority, job.seq), default=None)

    def _expire(self) -> None:
        now = self.clock.read()
        for job in self.jobs.values():
            ttl = job.new.ttl
            late = ttl is not None and job.created_at + timedelta(seconds=ttl) <= now
            if late and job.state in _WAITING:
                job.state, job.finished_at = State.EXPIRED, now
                job.error = failure.envelope(failure.EXPIRED, "expired before it ran")

    def _call(
        self, job: MemoryJob, definition: Definition, overrides: Overrides, most: int
    ) -> HandlerCall:
        """Return the call of a job's handler. Raise InvalidInput if its input does not fit."""
        carried = None if job.carried is None else job.carried.decode()
        timeout = job.options.get("timeout", definition.timeout_seconds)

        def progress(note: dict[str, Any]) -> None:
            job.progress = note

        context = Context(
            job_id=UUID(job.new.id),
            task=job.task,
            queue=job.queue,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            headers=job.new.headers or {},
            deadline=None if timeout is None else self.clock.after(timeout),
            _note=progress,
            step=job.step,
            state=state_of(definition, carried),
            _now=self.clock.read,
        )
        arguments: dict[str, Any] = definition.parameters.decode(job.input)
        batch = definition.batch is not None
        if batch:
            arguments = dict[str, Any]((name, [item]) for name, item in arguments.items())
        if definition.context_parameter is not None:
            arguments[definition.context_parameter] = [context] if batch else context

        def outcome(value: Any) -> Outcome:
            if batch:
                value = None if value is None else value[0]
                if isinstance(value, BaseException):
                    return Raised(value)
            return outcome_of(definition, value, context, job.options, most)

        return HandlerCall(
            definition.executor == "async",
            lambda: direct_call.call(definition, overrides, (), arguments),
            outcome,
        )

    def _settle(self, job: MemoryJob, verdict: Verdict) -> None:
        now, kind = self.clock.read(), verdict.kind
        self.settled[kind] = self.settled.get(kind, 0) + 1
        if verdict.error is not None:
            end = "r" if kind == "retry" else "f"
            self.broken.append(
                BrokenAttempt(
                    job.new.id, job.claim, job.task, job.step, job.attempt, end, verdict.error
                )
            )
        job.error = verdict.error
        job.carried = verdict.carried or job.carried
        job.run_at, job.state = now + timedelta(seconds=verdict.delay), State.SCHEDULED
        if kind == "succeed":
            job.result = verdict.result
        if kind == "snooze":
            job.attempt -= 1
        if (move := verdict.advance) is not None:
            job.step, job.input, job.queue, job.attempt = move.step, move.input, move.queue, 0
            job.priority, job.max_attempts = move.priority, move.max_attempts
            job.run_at = now + timedelta(seconds=move.delay)
        ends = {"succeed": State.SUCCEEDED, "fail": State.FAILED, "cancel": State.CANCELLED}
        if kind in ends:
            job.state, job.finished_at = ends[kind], now
        self.make(verdict.children or ())


async def outcome(call: HandlerCall) -> Outcome:
    """Return the outcome of a call. A plain function runs in a thread."""
    try:
        value = await call.call() if call.is_async else await asyncio.to_thread(call.call)
        return call.outcome(value)
    except Exception as error:
        return Raised(error)


def outcome_sync(call: HandlerCall) -> Outcome:
    """Return the outcome of a call in this thread. An async function gets an event loop of its own."""
    try:
        return call.outcome(loop.run(call.call()) if call.is_async else call.call())
    except Exception as error:
        return Raised(error)
