"""One job on this worker, from its claim to its outcome: decode, call, and know why it was stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Literal, TypeGuard
from uuid import UUID

from headway.core import codec, failure
from headway.core.clock import wall
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.duration import in_words
from headway.core.retry import Retry
from headway.core.verdict import Broke, Moved, Outcome, Raised, Returned, Stopped
from headway.engine.books import Booked, Books
from headway.engine.invoke import Injector, Overrides
from headway.engine.processes import Processes
from headway.engine.returned import outcome_of, state_of
from headway.engine.threads import Abandoned, Threads
from headway.errors import InvalidInput
from headway.store.rows import Claim

Reason = Literal["timeout", "cancel", "lost", "shutdown"]


@dataclass(slots=True, eq=False)
class Running:
    """A claimed job and what is known of its attempt so far."""

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
    """Why it is to stop, if it is."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Those that the job brought."""
    context: Context | None = None
    settling: bool = False
    """Its own transaction is being committed: nobody can stop it any more."""
    next: Claim | None = None
    """The same job at its next step, to be started when this has ended."""
    timer: asyncio.TimerHandle | None = None
    abandoned: asyncio.Future[Any] | None = None
    """Ends when a thread that would not stop does."""


class Handlers:
    """Calls handlers on the loop, in threads and in processes."""

    def __init__(
        self,
        *,
        threads: int,
        processes: int,
        max_result: int,
        overrides: Overrides,
        books: Books,
        stop: Callable[[str, Reason], None],
        note: Callable[[Claim, dict[str, Any]], None],
    ) -> None:
        """`stop` is how a timeout stops a job, `note` where its progress goes."""
        self._threads = Threads(threads)
        self._processes = Processes(processes, max_result)
        self._injector = Injector(overrides)
        self._max_result = max_result
        self._books = books
        self._stop = stop
        self._note = note

    async def close(self) -> None:
        self._threads.close()
        self._processes.close()
        await self._injector.close()

    async def outcome(self, running: Running) -> Outcome | Booked:
        """What the attempt came to. Total: whatever the handler does, this returns."""
        definition = running.definition
        try:
            if running.reason is not None:
                raise asyncio.CancelledError  # stopped before it began
            self._prepare(running)
            arguments: dict[str, Any] = {}
            try:
                if definition.flow is not None and definition.flow.state is not None:
                    self._context(running)
                if definition.executor != "process":
                    arguments = definition.parameters.decode(running.claim.input)
            except InvalidInput as error:
                return Broke(failure.envelope_of(error, failure.INVALID_INPUT), again=False)
            if definition.executor == "process":
                return await self._processes.call(
                    definition,
                    self._context(running),
                    running.claim,
                    running.options,
                    lambda: self._begin(running),
                    partial(self._note, running.claim),
                )
            if definition.transaction:
                return await self._in_transaction(running, arguments)
            self._begin(running)
            outcome = self._returned(running, await self._call(running, arguments))
            if _may_wait(outcome):
                return await self._settle_apart(running, outcome)
            return outcome
        except asyncio.CancelledError as error:
            return _stopped(running) or Raised(error)
        except Abandoned as error:
            running.abandoned = error.done
            return _stopped(running) or Raised(error)
        except BaseException as error:  # nothing a job does may end the worker
            return Raised(error)
        finally:
            if running.timer is not None:
                running.timer.cancel()

    async def _in_transaction(
        self, running: Running, arguments: dict[str, Any]
    ) -> Outcome | Booked:
        """The handler in a transaction that commits with its success, and only with that."""
        lent = await self._books.lend(sync=running.definition.executor == "thread")
        try:
            self._context(running).lend(lent.conn)
            self._begin(running)
            outcome = self._returned(running, await self._call(running, arguments))
            if not isinstance(outcome, Broke):
                # From here on it is the database that decides: nothing is to stop it half way.
                running.settling = True
                if running.timer is not None:
                    running.timer.cancel()
                return await self._books.settle(lent, running.claim, outcome)
        except Abandoned as error:
            lent.abandon(error.done)
            raise
        except BaseException:
            await lent.rollback()
            raise
        await lent.rollback()
        return outcome

    async def _settle_apart(self, running: Running, outcome: Returned | Moved) -> Outcome | Booked:
        """Settles on a connection of its own what may have to wait for a transaction of someone else's:
        in a batch it would hold up all the others."""
        running.settling = True
        lent = await self._books.lend(sync=False)
        try:
            return await self._books.settle(lent, running.claim, outcome)
        except BaseException:
            await lent.rollback()
            raise

    async def _call(self, running: Running, arguments: dict[str, Any]) -> Any:
        definition = running.definition
        if definition.context_parameter is not None:
            arguments[definition.context_parameter] = self._context(running)
        if not definition.dependencies:
            return await self._handler(definition, arguments)
        async with AsyncExitStack() as stack:
            arguments |= await self._injector.resolve(
                definition.dependencies, stack, lambda: self._context(running)
            )
            return await self._handler(definition, arguments)

    def _handler(self, definition: Definition, arguments: dict[str, Any]) -> Awaitable[Any]:
        if definition.executor == "async":
            return definition.function(**arguments)  # type: ignore[no-any-return]
        return self._threads.call(definition.function, arguments)

    def _prepare(self, running: Running) -> None:
        """The task's options, and the job's own where it brought some and the step has none."""
        definition = running.definition
        running.timeout = definition.timeout_seconds
        if running.claim.options is not None:
            options = running.options = codec.decode(running.claim.options)
            if "timeout" not in definition.own:
                running.timeout = options.get("timeout", running.timeout)
            if "retry" in options and "retry" not in definition.own:
                running.policy = definition.retry.with_stored(options["retry"])

    def _begin(self, running: Running) -> None:
        running.started = True
        if running.timeout is not None:
            running.timer = asyncio.get_running_loop().call_later(
                running.timeout, self._stop, running.claim.id, "timeout"
            )

    def _returned(self, running: Running, value: Any) -> Returned | Moved | Broke:
        return outcome_of(
            running.definition, value, running.context, running.options, self._max_result
        )

    def _context(self, running: Running) -> Context:
        if running.context is None:
            claim, timeout = running.claim, running.timeout
            loop = asyncio.get_running_loop()
            running.context = Context(
                job_id=UUID(claim.id),
                task=claim.task,
                queue=claim.queue,
                attempt=claim.attempt,
                max_attempts=claim.max_attempts,
                headers={} if claim.headers is None else codec.decode(claim.headers),
                deadline=None if timeout is None else wall() + timedelta(seconds=timeout),
                _note=partial(_note_from_any_thread, loop, partial(self._note, claim)),
                _stopped=running.reason is not None,
                step=claim.step,
                state=state_of(running.definition, claim.carried),
            )
        return running.context


def _may_wait(outcome: Returned | Moved | Broke) -> TypeGuard[Returned | Moved]:
    """Whether it makes jobs with unique keys, which an open transaction may have taken."""
    return not isinstance(outcome, Broke) and any(
        child.unique_key is not None for child in outcome.children or ()
    )


def _stopped(running: Running) -> Outcome | None:
    """The outcome of an attempt that was stopped; none if nobody stopped it."""
    match running.reason:
        case "timeout":
            words = f"timed out after {in_words(running.timeout or 0)}"
            return Broke(failure.envelope(failure.TIMED_OUT, words), again=True)
        case "cancel":
            return Stopped("cancel")
        case "shutdown" | "lost":
            # Of a lost claim nothing is written anyway: the settling finds it gone.
            return Stopped("shutdown")
        case None:
            return None  # the handler raised CancelledError by itself: an error like others


def _note_from_any_thread(
    loop: asyncio.AbstractEventLoop,
    note: Callable[[dict[str, Any]], None],
    progress: dict[str, Any],
) -> None:
    loop.call_soon_threadsafe(note, progress)
