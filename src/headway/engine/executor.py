"""From a claim to a verdict: decode, call, wait, and stop what must be stopped."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal
from uuid import UUID

from headway.core import codec, failure
from headway.core.clock import monotonic, wall
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.duration import in_words
from headway.core.retry import Retry
from headway.core.verdict import Broke, Outcome, Raised, Returned, Stopped, Verdict, decide
from headway.engine.invoke import Injector, Overrides
from headway.engine.processes import Processes
from headway.engine.settler import Settler
from headway.engine.threads import Abandoned, Threads
from headway.errors import InvalidInput
from headway.store.rows import Claim

log = logging.getLogger("headway.worker")

Reason = Literal["timeout", "cancel", "lost", "shutdown"]


@dataclass(slots=True, eq=False)
class Running:
    """One job on this worker, from its claim to its verdict."""

    claim: Claim
    definition: Definition
    since: float
    timeout: float | None = None
    policy: Retry | None = None
    entered: bool = False
    """Its coroutine has begun: before that, cancelling it would end it without a verdict."""
    started: bool = False
    """The handler has begun."""
    task: asyncio.Task[None] | None = None
    reason: Reason | None = None
    context: Context | None = None
    timer: asyncio.TimerHandle | None = None
    abandoned: asyncio.Future[Any] | None = None


class Executor:
    """Runs claimed jobs, each in a task of its own, and hands their verdicts to the settler."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        settler: Settler,
        *,
        slots: int,
        processes: int,
        max_result: int,
        overrides: Overrides,
        on_end: Callable[[Definition], None],
        on_note: Callable[[], None],
    ) -> None:
        self._definitions = definitions
        self._settler = settler
        self._max_result = max_result
        self._on_end = on_end
        self._on_note = on_note
        self._slots = slots
        self._running: dict[str, Running] = {}
        self._running_of = Counter[str]()
        self._taken = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._threads = Threads(slots)
        self._processes = Processes(processes)
        self._injector = Injector(overrides)
        self._notes: dict[str, tuple[Claim, dict[str, Any]]] = {}

    @property
    def free(self) -> int:
        return self._slots - self._taken

    @property
    def running(self) -> Mapping[str, Running]:
        return self._running

    def running_of(self, task: str) -> int:
        return self._running_of[task]

    def start(self, claims: Sequence[Claim]) -> None:
        """Starts claimed jobs, in their order."""
        loop = asyncio.get_running_loop()
        now = monotonic()
        for claim in sorted(claims, key=_order) if len(claims) > 1 else claims:
            running = Running(claim, self._definitions[claim.task], now)
            self._running[claim.id] = running
            self._running_of[claim.task] += 1
            self._taken += 1
            running.task = loop.create_task(self._run(running))
        if claims:
            self._idle.clear()

    def stop(self, job_id: str, reason: Reason) -> None:
        """Stops a job, if it runs here: its handler is told, then cancelled."""
        running = self._running.get(job_id)
        if running is None or running.reason is not None or running.task is None:
            return
        running.reason = reason
        if running.context is not None:
            running.context.stop()
        if running.entered:
            running.task.cancel()

    def stop_all(self, reason: Reason, *, unstarted_only: bool = False) -> None:
        for running in list(self._running.values()):
            if not (unstarted_only and running.started):
                self.stop(running.claim.id, reason)

    async def idle(self) -> None:
        """Returns when nothing runs."""
        await self._idle.wait()

    def take_notes(self) -> list[tuple[Claim, dict[str, Any]]]:
        """The newest progress of each job since this was last asked."""
        notes, self._notes = list(self._notes.values()), {}
        return notes

    async def close(self) -> None:
        self._threads.close()
        self._processes.close()
        await self._injector.close()

    # -- one job ----------------------------------------------------------------------------------

    async def _run(self, running: Running) -> None:
        claim = running.claim
        running.entered = True
        try:
            outcome = (running.reason and self._stopped(running)) or await self._outcome(running)
        except BaseException as error:  # nothing a job does may end the worker
            outcome = Raised(error)
        verdict = decide(
            outcome,
            running.policy or running.definition.retry,
            claim.attempt,
            claim.max_attempts,
            random.random(),
        )
        if verdict.kind != "succeed":
            _report(running, verdict)
        self._end(running)
        self._settler.add(claim, verdict)

    async def _outcome(self, running: Running) -> Outcome:
        definition = running.definition
        try:
            self._prepare(running)
            if definition.executor == "process":
                return await self._processes.call(
                    definition,
                    self._context(running),
                    running.claim.input,
                    lambda: self._begin(running),
                    lambda progress: self._note(running.claim, progress),
                )
            arguments = definition.parameters.decode(running.claim.input)
            self._begin(running)
            return self._returned(await self._call(running, arguments))
        except asyncio.CancelledError as error:
            return self._stopped(running) or Raised(error)
        except Abandoned as error:
            running.abandoned = error.done
            return self._stopped(running) or Raised(error)
        except BaseException as error:
            return Raised(error)
        finally:
            if running.timer is not None:
                running.timer.cancel()

    async def _call(self, running: Running, arguments: dict[str, Any]) -> Any:
        definition = running.definition
        if definition.context_parameter is not None:
            arguments[definition.context_parameter] = self._context(running)
        if not definition.dependencies:
            if definition.executor == "async":
                return await definition.function(**arguments)
            return await self._threads.call(definition.function, arguments)
        async with AsyncExitStack() as stack:
            arguments |= await self._injector.resolve(
                definition.dependencies, stack, lambda: self._context(running)
            )
            if definition.executor == "async":
                return await definition.function(**arguments)
            return await self._threads.call(definition.function, arguments)

    def _prepare(self, running: Running) -> None:
        definition = running.definition
        running.timeout = definition.timeout_seconds
        if running.claim.options is not None:
            options = codec.decode(running.claim.options)
            running.timeout = options.get("timeout", running.timeout)
            if "retry" in options:
                running.policy = definition.retry.with_stored(options["retry"])

    def _begin(self, running: Running) -> None:
        running.started = True
        if running.timeout is not None:
            running.timer = asyncio.get_running_loop().call_later(
                running.timeout, self.stop, running.claim.id, "timeout"
            )

    def _returned(self, value: Any) -> Outcome:
        try:
            encoded = codec.check_size(codec.encode(value), self._max_result, "the result")
        except InvalidInput as error:
            note = failure.envelope_of(error) | {"type": failure.INVALID_RESULT}
            return Broke(note, again=False)
        return Returned(encoded)

    def _stopped(self, running: Running) -> Outcome | None:
        match running.reason:
            case "timeout":
                words = f"timed out after {in_words(running.timeout or 0)}"
                return Broke(failure.envelope(failure.TIMED_OUT, words), again=True)
            case "cancel":
                return Stopped("cancel")
            case "shutdown" | "lost":
                # Of a lost claim nothing is written anyway: the settler finds it gone.
                return Stopped("shutdown")
            case None:
                return None  # the handler raised CancelledError by itself: an error like others

    def _end(self, running: Running) -> None:
        del self._running[running.claim.id]
        self._notes.pop(running.claim.id, None)
        if running.abandoned is None:
            self._free_slot(running)
        else:
            log.error(
                "job %s did not stop; its thread keeps its slot until it ends",
                running.claim.id,
                extra=_extra(running.claim),
            )
            running.abandoned.add_done_callback(lambda done: self._bury(running, done))
        if not self._running:
            self._idle.set()

    def _bury(self, running: Running, done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()
        self._free_slot(running)

    def _free_slot(self, running: Running) -> None:
        self._taken -= 1
        self._running_of[running.claim.task] -= 1
        self._on_end(running.definition)

    def _context(self, running: Running) -> Context:
        if running.context is None:
            claim = running.claim
            loop = asyncio.get_running_loop()
            running.context = Context(
                job_id=UUID(claim.id),
                task=claim.task,
                queue=claim.queue,
                attempt=claim.attempt,
                max_attempts=claim.max_attempts,
                headers={} if claim.headers is None else codec.decode(claim.headers),
                deadline=(
                    None if running.timeout is None else wall() + timedelta(seconds=running.timeout)
                ),
                # From a thread as well as from the loop.
                _note=partial(_from_any_thread, loop, self._note, claim),
                _stopped=running.reason is not None,
            )
        return running.context

    def _note(self, claim: Claim, progress: dict[str, Any]) -> None:
        if claim.id in self._running:
            self._notes[claim.id] = (claim, progress)
            self._on_note()


def _from_any_thread(loop: asyncio.AbstractEventLoop, note: Any, *args: Any) -> None:
    loop.call_soon_threadsafe(note, *args)


def _order(claim: Claim) -> tuple[int, int]:
    return -claim.priority, claim.seq


def _extra(claim: Claim) -> dict[str, Any]:
    return {
        "job_id": claim.id,
        "task": claim.task,
        "attempt": claim.attempt,
        "queue": claim.queue,
    }


def _report(running: Running, verdict: Verdict) -> None:
    claim = running.claim
    error = verdict.error or {}
    match verdict.kind:
        case "fail":
            log.error(
                "%s %s failed: %s: %s",
                claim.task,
                claim.id,
                error.get("type"),
                error.get("message"),
                extra=_extra(claim),
            )
        case "retry":
            log.warning(
                "%s %s attempt %d of %d failed, next in %s: %s: %s",
                claim.task,
                claim.id,
                claim.attempt,
                claim.max_attempts,
                in_words(verdict.delay),
                error.get("type"),
                error.get("message"),
                extra=_extra(claim),
            )
        case _:
            log.info("%s %s: %s", claim.task, claim.id, verdict.kind, extra=_extra(claim))
