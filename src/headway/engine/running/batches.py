"""Batch tasks: collects their jobs, calls the handler once, and gives each job its part of the answer.

Each job keeps its slot, its claim and its asyncio task, which waits here for its part of the answer. So
each job can be stopped separately: it leaves the batch, and the others stay. The call is an asyncio task
of its own. It is cancelled when no remaining job needs its answer. The jobs that leave last then wait
until it has really ended, as a job waits for its own handler.

A task has one call at a time. There are two exceptions, which get a call of their own in parallel:

- the last attempt of a job that failed before, so that no job fails for good because of another in its
  call;
- a suspect, a job that was running when its process died, so that a guilty one harms no other job.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headway.core import failure
from headway.core.batch import Batch
from headway.core.clock import Clock, monotonic
from headway.core.current import BATCH_SIZE, CLAIMED, without_job
from headway.core.definition import Definition
from headway.core.verdict import Broke, Outcome, Raised
from headway.engine.running.job import JobOwner, RunningJob, ended_by
from headway.store.rows import Claim


@dataclass(slots=True)
class Answered:
    """A value that one job of a batch got, before it is an outcome: middleware sees it first."""

    value: Any


Answer = Outcome | Answered


@dataclass(slots=True, eq=False)
class _Member:
    """One job in a batch."""

    running: RunningJob
    item: Any
    since: float
    answered: asyncio.Future[None]
    """Done when there is an answer."""
    call: _BatchCall | None = None
    answer: Answer | None = None


@dataclass(slots=True, eq=False)
class _BatchCall:
    """One call of a handler."""

    members: list[_Member]
    """The jobs that have not left."""
    task: asyncio.Task[None] | None = None
    timers: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])
    ending: bool = False

    def is_wanted(self) -> bool:
        return any(member.running.reason is None for member in self.members)


class Batches:
    """Collects the jobs of every batch task of a worker."""

    def __init__(
        self,
        *,
        call: Callable[[Definition, Sequence[RunningJob], list[Any]], Awaitable[Any]],
        returned: Callable[[RunningJob, Any], Answer],
        began: Callable[[RunningJob], None],
        owner: JobOwner,
        clock: Clock,
    ) -> None:
        """`call` calls a handler, `returned` turns a value into an outcome. `began` is told that a
        job's call begins."""
        self._call = call
        self._began = began
        self._returned = returned
        self._owner = owner
        self._clock = clock
        self._waiting: dict[str, deque[_Member]] = {}
        self._calls: dict[str, _BatchCall] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._context = without_job()

    async def outcome(self, running: RunningJob, batch: Batch, item: Any) -> Answer:
        """Return the outcome of one job's attempt. Raise CancelledError if it was stopped."""
        member = _Member(running, item, monotonic(), asyncio.get_running_loop().create_future())
        if _is_called_alone(running.claim):
            self._begin([member])
        else:
            self._join(member, batch)
        try:
            await member.answered
        except asyncio.CancelledError:
            await self._leave(member, batch)
            if member.answer is None:
                raise
        assert member.answer is not None, "the answer is set before the future is done"
        return member.answer

    def _join(self, member: _Member, batch: Batch) -> None:
        handler = member.running.definition.handler
        waiting = self._waiting.setdefault(handler, deque())
        waiting.append(member)
        if len(waiting) >= batch.size:
            self._call_if_due(handler, batch)
        elif handler not in self._calls and handler not in self._timers:
            self._check_in(batch.wait_seconds, handler, batch)

    def _check_in(self, seconds: float, handler: str, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        self._timers[handler] = loop.call_later(seconds, self._call_if_due, handler, batch)

    def _call_if_due(self, handler: str, batch: Batch) -> None:
        """Make the next call if it is due. Otherwise check again when it is."""
        if (timer := self._timers.pop(handler, None)) is not None:
            timer.cancel()
        waiting = self._waiting[handler]
        if handler in self._calls or not waiting:
            return
        rest = waiting[0].since + batch.wait_seconds - monotonic()
        if len(waiting) < batch.size and rest > 0:
            self._check_in(rest, handler, batch)
            return
        members = [waiting.popleft() for _ in range(min(batch.size, len(waiting)))]
        call = self._calls[handler] = self._begin(members)
        assert call.task is not None, "it has just begun"
        call.task.add_done_callback(lambda _: self._ended(handler, batch))

    def _ended(self, handler: str, batch: Batch) -> None:
        del self._calls[handler]
        self._call_if_due(handler, batch)

    def _begin(self, members: list[_Member]) -> _BatchCall:
        call = _BatchCall(members)
        for member in members:
            member.call = call
            self._began(member.running)
            if member.running.timeout is not None:
                member.running.times_out_at = self._clock.after(member.running.timeout)
        loop = asyncio.get_running_loop()
        # One timer for all jobs with the same timeout, so that they leave together.
        for timeout in {member.running.timeout for member in members} - {None}:
            assert timeout is not None
            call.timers.append(loop.call_later(timeout, self._time_out, call, timeout))
        # Not in the context of the job that happens to begin it: the call is for all of them.
        context = self._context.copy()
        context.run(CLAIMED.set, members[0].running.claim)
        context.run(BATCH_SIZE.set, len(members))
        call.task = loop.create_task(self._run(call, list(members)), context=context)
        return call

    def _time_out(self, call: _BatchCall, timeout: float) -> None:
        for member in list(call.members):
            if member.running.timeout == timeout:
                self._owner.stop(member.running.claim.id, "timeout")

    async def _run(self, call: _BatchCall, asked: list[_Member]) -> None:
        """Make one call, and answer each job that has not left when it ends. Never raise."""
        definition = asked[0].running.definition
        answers: list[Answer] | None = None
        try:
            value = await self._call(
                definition, [member.running for member in asked], [member.item for member in asked]
            )
            answers = self._answers(definition, asked, value)
        except BaseException as error:  # nothing a handler does may end the worker
            answers = [ended_by(member.running, error) for member in asked]
        finally:
            for timer in call.timers:
                timer.cancel()
        for member, answer in zip(asked, answers, strict=True):
            member.answer = answer
            if not member.answered.done():
                member.answered.set_result(None)

    def _answers(self, definition: Definition, asked: list[_Member], value: Any) -> list[Answer]:
        given = [None] * len(asked) if value is None else value
        if not isinstance(given, Sequence) or isinstance(given, str | bytes | bytearray):
            return [_wrong(definition, len(asked), f"a {type(value).__name__}")] * len(asked)
        answers = list(cast("Sequence[Any]", given))
        if len(answers) != len(asked):
            return [_wrong(definition, len(asked), f"{len(answers)} answers")] * len(asked)
        return [
            Raised(answer)
            if isinstance(answer, BaseException)
            else self._returned(member.running, answer)
            for member, answer in zip(asked, answers, strict=True)
        ]

    async def _leave(self, member: _Member, batch: Batch) -> None:
        """Remove a job that was stopped. If no other job needs the call, end the call first."""
        call = member.call
        if call is None:
            handler = member.running.definition.handler
            self._waiting[handler].remove(member)
            self._call_if_due(handler, batch)
        elif call.is_wanted():
            call.members.remove(member)
        elif call.task is not None:
            if not call.ending:
                call.ending = True
                call.task.cancel()
            await asyncio.wait([call.task])


def _is_called_alone(claim: Claim) -> bool:
    is_last_chance = claim.attempt > 1 and claim.attempt >= claim.max_attempts
    return is_last_chance or claim.crashes > 0


def _wrong(definition: Definition, asked: int, got: str) -> Broke:
    words = (
        f"{definition.handler} was called with {asked} jobs and returned {got}; return a list with an "
        "answer for each job, in their order, or None if all succeeded without a result"
    )
    return Broke(failure.envelope(failure.INVALID_RESULT, words), again=False)
