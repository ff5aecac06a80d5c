"""Claims in, verdicts out: runs every claimed job in an asyncio task, within this worker's slots."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.core import failure
from headway.core.clock import Clock, monotonic
from headway.core.definition import Definition
from headway.core.duration import in_words
from headway.core.verdict import CANCEL, RELEASE, Broke, Verdict, decide
from headway.engine.jobs.settler import Settler
from headway.engine.running.ahead import Ahead, in_turns
from headway.engine.running.attempt import Handlers
from headway.engine.running.child import Prepare
from headway.engine.running.invoke import Overrides
from headway.engine.running.isolation import Isolation
from headway.engine.running.job import Reason, RunningJob
from headway.engine.running.progress import ProgressWriter
from headway.engine.running.suspects import Suspects, later
from headway.engine.running.transactional import SettledInTransaction, TransactionalSettler
from headway.store.rows import Claim

log = logging.getLogger("headway.worker")


if sys.version_info >= (3, 12):

    def _new_task(
        loop: asyncio.AbstractEventLoop, job: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        """Start a task at once: a handler that never waits costs the event loop nothing."""
        return asyncio.Task(job, loop=loop, eager_start=True)

else:

    def _new_task(
        loop: asyncio.AbstractEventLoop, job: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        return loop.create_task(job)


class Executor:
    """Runs claimed jobs and passes their verdicts to the settler."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        settler: Settler,
        *,
        slots: int,
        dedicated: Mapping[str, int],
        processes: int,
        max_result: int,
        overrides: Overrides,
        prepare_child: Prepare,
        transactional: TransactionalSettler,
        isolation: Isolation,
        progress: ProgressWriter,
        on_free_slot: Callable[[], None],
        clock: Clock,
        on_start: Callable[[Claim], None] | None = None,
    ) -> None:
        """`isolation` runs suspects. `on_free_slot` is called when a slot becomes free, `on_start` when
        an attempt begins."""
        self._definitions = definitions
        self._settler = settler
        self._slots = slots
        self._dedicated = dedicated
        self._progress = progress
        self._on_free_slot = on_free_slot
        self._handlers = Handlers(
            threads=slots + sum(dedicated.values()),
            processes=processes,
            max_result=max_result,
            overrides=overrides,
            prepare_child=prepare_child,
            transactional=transactional,
            owner=self,
            clock=clock,
            isolation=isolation,
            on_start=on_start,
        )
        self._suspects = Suspects(isolation)
        self.ahead = Ahead(slots, self._give_back)
        self._running: dict[str, RunningJob] = {}
        self._running_of = Counter[str]()
        self._taken = 0
        """Taken slots, of those that queues share."""
        self._taken_of = Counter[str]()
        """Taken slots by queue, of the dedicated ones."""
        self._idle = asyncio.Event()
        self._idle.set()

    def free(self, *, ahead: bool = False) -> int:
        """Return how many jobs may be claimed for the shared slots, with those that may wait for one."""
        if self._suspects.needs_quiet:
            return 0
        return self._slots - self._taken + (self.ahead.room if ahead else 0)

    @property
    def dedicated(self) -> Mapping[str, int]:
        """Queues with dedicated slots, and how many they have."""
        return self._dedicated

    def free_of(self, queue: str) -> int:
        """Return the free slots of a queue with dedicated slots."""
        return 0 if self._suspects.needs_quiet else self._dedicated[queue] - self._taken_of[queue]

    @property
    def running(self) -> Mapping[str, RunningJob]:
        return self._running

    def claims(self) -> list[Claim]:
        """Return the claims of all jobs that run here, or wait for their previous step to end."""
        following = (one.next for one in self._running.values() if one.next is not None)
        return [*(one.claim for one in self._running.values()), *following]

    def running_of(self, handler: str) -> int:
        return self._running_of[handler]

    def start(self, claims: Sequence[Claim]) -> None:
        """Start claimed jobs, in the given order."""
        now, started = monotonic(), list[RunningJob]()
        if len(claims) > self._slots - self._taken:
            claims = in_turns(claims)  # some will wait for a slot
        for claim in claims:
            if (before := self._running.get(claim.id)) is not None:
                self._follow(before, claim)
                continue
            running = RunningJob(claim, self._definitions[claim.handler], now)
            if claim.crashes and not self._suspects.take(running):
                self._settler.add(claim, later())
                continue
            self._running[claim.id] = running
            self._running_of[running.definition.handler] += 1
            if self._must_wait(running):
                self.ahead.put(running)
                continue
            self._take_slot(claim.queue, 1)
            started.append(running)
        if started:
            self._idle.clear()
            # Later in this turn of the event loop: the job loop first sends its next round trip.
            asyncio.get_running_loop().call_soon(self._enter, started)

    def _enter(self, started: Sequence[RunningJob]) -> None:
        loop = asyncio.get_running_loop()
        for running in started:
            running.task = _new_task(loop, self._run(running))

    def stop_claim(self, claim: Claim, reason: Reason) -> None:
        """Stop a job if it runs here under exactly this claim. Another claim of the same job goes on."""
        running = self._running.get(claim.id)
        if running is not None and running.claim.number == claim.number:
            self.stop(claim.id, reason)

    def stop(self, job_id: str, reason: Reason) -> None:
        """Stop a job if it runs here: mark its context as cancelled, then cancel its handler."""
        running = self._running.get(job_id)
        if running is None or running.reason is not None:
            return
        if running.settling:
            self._give_back_next(running, CANCEL if reason == "cancel" else RELEASE)
            return
        running.reason = reason
        if self.ahead.take(running):
            self._start_waiting(running)  # it ends at once
        if running.context is not None:
            running.context.stop()
        if running.entered and running.task is not None:
            running.task.cancel()

    def note(self, claim: Claim, progress: dict[str, Any]) -> None:
        """Take the progress of a job, if it still runs here."""
        if claim.id in self._running:
            self._progress.note(claim, progress)

    def stop_all(self, reason: Reason, *, unstarted_only: bool = False) -> None:
        for running in list(self._running.values()):
            self._give_back_next(running, RELEASE)
            if not (unstarted_only and running.started):
                self.stop(running.claim.id, reason)
        if not unstarted_only:
            self._handlers.hurry()

    def time_moved(self, now: datetime) -> None:
        """Stop the attempts whose timeout lies before a moment to which a fixed clock was moved."""
        for running in list(self._running.values()):
            if running.times_out_at is not None and running.times_out_at <= now:
                self.stop(running.claim.id, "timeout")

    async def idle(self) -> None:
        """Wait until no job runs."""
        await self._idle.wait()

    async def close(self) -> None:
        self.ahead.close()
        self._suspects.close()
        await self._handlers.close()

    async def _run(self, running: RunningJob) -> None:
        running.entered = True
        claim = running.claim
        if running.alone and not await self._suspects.quiet(running, self._running):
            self._end(running)
            self._settler.add(claim, later())
            return
        outcome = await self._handlers.outcome(running)
        if running.isolated and not running.started and isinstance(outcome, Broke):
            # The child failed before it began the job, so the job is not to blame.
            self._suspects.refuse(running, outcome)
            self._end(running)
            self._settler.add(claim, later())
            return
        if isinstance(outcome, SettledInTransaction):
            self._end(running)
            self._settler.count(claim, outcome.verdict)
            return
        verdict = decide(
            outcome,
            running.policy or running.definition.retry,
            claim.attempt,
            claim.max_attempts,
            random.random(),
            claim.crashes,
        )
        if verdict.kind != "succeed":
            _report(claim, verdict)
        self._end(running)
        self._settler.add(claim, verdict)

    def _end(self, running: RunningJob) -> None:
        del self._running[running.claim.id]
        self.ahead.handler_ended(running.since)
        self._suspects.ended(running)
        self._progress.forget(running.claim.id)
        if running.abandoned is None:
            self._free_slot(running)
        else:
            log.error(
                "job %s did not stop; its thread keeps its slot until it ends",
                running.claim.id,
                extra=_about(running.claim),
            )
            running.abandoned.add_done_callback(lambda done: self._thread_ended(running, done))
        if running.next is not None:
            self.start([running.next])
        if not self._running:
            self._idle.set()

    def _follow(self, before: RunningJob, claim: Claim) -> None:
        """Accept a claim of a job that already runs here."""
        if before.settling and before.next is None:
            # The next step was claimed before the answer to the previous step's commit arrived.
            before.next = claim
        else:
            # The claim was lost, the job was released and claimed again, and its old handler still stops.
            self._settler.add(claim, later())

    def _give_back_next(self, running: RunningJob, verdict: Verdict) -> None:
        if running.next is not None:
            self._settler.add(running.next, verdict)
            running.next = None

    def _thread_ended(self, running: RunningJob, done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()  # ignored: the job was settled long ago
        self._free_slot(running)

    def _take_slot(self, queue: str, count: int) -> None:
        if queue in self._dedicated:
            self._taken_of[queue] += count
        else:
            self._taken += count

    def _free_slot(self, running: RunningJob) -> None:
        self._take_slot(running.claim.queue, -1)
        self._running_of[running.definition.handler] -= 1
        if self._taken < self._slots and (waiting := self.ahead.next()) is not None:
            self._start_waiting(waiting)
        self._on_free_slot()

    def _must_wait(self, running: RunningJob) -> bool:
        """Whether a claimed job waits for a slot. Suspects do not: they would be charged for a crash."""
        shared = running.claim.queue not in self._dedicated
        return shared and self._taken >= self._slots and not running.claim.crashes

    def _start_waiting(self, running: RunningJob) -> None:
        """Start a job that was claimed ahead."""
        running.since = monotonic()
        self._take_slot(running.claim.queue, 1)
        # Not at once: jobs that end as soon as they start would nest without bound.
        asyncio.get_running_loop().call_soon(self._enter, (running,))

    def _give_back(self, running: RunningJob) -> None:
        """Return a job that was claimed ahead to its queue. It has not started."""
        del self._running[running.claim.id]
        self._running_of[running.definition.handler] -= 1
        self._suspects.ended(running)
        self._settler.add(running.claim, RELEASE)
        if not self._running:
            self._idle.set()


def _about(claim: Claim) -> dict[str, Any]:
    return {
        "job_id": claim.id,
        "task": claim.task,
        "step": claim.step,
        "attempt": claim.attempt,
        "queue": claim.queue,
    }


def _report(claim: Claim, verdict: Verdict) -> None:
    error = verdict.error or {}
    what = f"{error.get('type')}: {error.get('message')}"
    extra = _about(claim)
    match verdict.kind:
        case "fail":
            info = failure.exc_info(error, verdict.exception)
            log.error("%s %s failed: %s", claim.handler, claim.id, what, extra=extra, exc_info=info)
        case "retry":
            tries = f"{claim.attempt} of {claim.max_attempts}"
            again = in_words(verdict.delay)
            log.warning(
                "%s %s attempt %s failed, next in %s: %s",
                claim.handler, claim.id, tries, again, what, extra=extra,
                exc_info=failure.exc_info(error, verdict.exception),
            )  # fmt: skip
        case "advance" | "succeed":
            pass
        case _:
            log.info("%s %s: %s", claim.handler, claim.id, verdict.kind, extra=extra)
