"""One attempt of a job, from its claim to its outcome: decode the input, call the handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NoReturn, Protocol, TypeGuard

from headway.core import codec, failure
from headway.core.batch import Batch
from headway.core.clock import Clock
from headway.core.context import Context
from headway.core.current import CLAIMED, info_of
from headway.core.definition import Definition
from headway.core.verdict import Broke, Moved, Outcome, Raised, Returned
from headway.engine.running.batches import Answer, Answered, Batches
from headway.engine.running.child import Prepare
from headway.engine.running.contexts import context_of
from headway.engine.running.invoke import Injector, Overrides
from headway.engine.running.job import AttemptEvents, Ended, JobOwner, RunningJob, ended_by
from headway.engine.running.middleware import around, around_plain
from headway.engine.running.outcomes import outcome_of
from headway.engine.running.processes import Processes
from headway.engine.running.threads import Abandoned, Threads
from headway.engine.running.transactional import SettledInTransaction, TransactionalSettler
from headway.errors import ConfigError, InvalidInput
from headway.store.rows import Claim


class Isolates(Protocol):
    """Runs suspects in child processes: `Isolation`."""

    def outcome(
        self, running: RunningJob, events: AttemptEvents
    ) -> Awaitable[Outcome | SettledInTransaction]: ...


class Handlers:
    """Calls handlers on the loop, in threads and in processes."""

    def __init__(
        self,
        *,
        threads: int,
        processes: int,
        max_result: int,
        overrides: Overrides,
        prepare_child: Prepare,
        transactional: TransactionalSettler,
        owner: JobOwner,
        clock: Clock,
        isolation: Isolates | None = None,
        on_start: Callable[[Claim], None] | None = None,
    ) -> None:
        """`owner` stops jobs at their timeout, and takes their progress. `on_start` is called when an
        attempt begins."""
        self._on_start = on_start
        self._threads = Threads(threads)
        self._processes = Processes(processes, max_result, prepare_child, clock)
        self._injector = Injector(overrides)
        self._max_result = max_result
        self._transactional = transactional
        self._owner = owner
        self._clock = clock
        self._isolation = isolation
        self._batches = Batches(
            call=self._call_batch,
            returned=self._answer,
            began=self._began,
            owner=owner,
            clock=clock,
        )

    def hurry(self) -> None:
        """Interrupt handlers now, although their grace is not over."""
        self._threads.hurry()

    async def close(self) -> None:
        self._threads.close()
        self._processes.close()
        await self._injector.close()

    async def outcome(self, running: RunningJob) -> Outcome | SettledInTransaction:
        """Return the outcome of an attempt. It never raises, whatever the handler does."""
        definition = running.definition
        CLAIMED.set(running.claim)
        try:
            if running.reason is not None:
                raise asyncio.CancelledError  # stopped before it began
            self._prepare(running)
            if running.isolated and self._isolation is not None:
                return await self._isolation.outcome(running, _Reports(running, self, self._owner))
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
                    _Reports(running, self, self._owner),
                )
            if definition.transaction:
                return await self._in_transaction(running, arguments)
            outcome: Outcome
            if definition.batch is not None:
                outcome = await self._in_batch(running, definition.batch, *arguments.values())
            else:
                self.begin(running)
                outcome = self._returned(running, await self._call(running, arguments))
            if _may_wait(outcome):
                return await self._settle_apart(running, outcome)
            return outcome
        except BaseException as error:  # a job must not end the worker
            return ended_by(running, error)
        finally:
            if running.timer is not None:  # most jobs have none
                running.timer.cancel()

    async def _in_transaction(
        self, running: RunningJob, arguments: dict[str, Any]
    ) -> Outcome | SettledInTransaction:
        """Run the handler in a transaction that commits if, and only if, it succeeds."""
        transaction = await self._transactional.begin(sync=running.definition.executor == "thread")
        try:
            self._context(running).attach(transaction.conn)
            self.begin(running)
            outcome = self._returned(running, await self._call(running, arguments))
            if not isinstance(outcome, Broke):
                # From here on the database decides. Nothing may stop the commit half way.
                running.settling = True
                if running.timer is not None:
                    running.timer.cancel()
                return await self._transactional.settle(transaction, running.claim, outcome)
        except Abandoned as error:
            transaction.abandon(error.done)
            raise
        except BaseException:
            await transaction.rollback()
            raise
        await transaction.rollback()
        return outcome

    async def _settle_apart(
        self, running: RunningJob, outcome: Returned | Moved
    ) -> Outcome | SettledInTransaction:
        """Settle a job on a connection of its own, because it may wait for a caller's open transaction.

        In a batch it would delay all other jobs. The job can be stopped until there is a connection.
        """
        transaction = await self._transactional.begin_apart()
        running.settling = True
        try:
            return await self._transactional.settle(transaction, running.claim, outcome)
        except BaseException:
            await transaction.rollback()
            raise

    async def _in_batch(self, running: RunningJob, batch: Batch, item: Any) -> Outcome:
        """Run one job of a batch. Middleware is around its part of the call."""
        if not running.definition.hooks.attempt:
            answer = await self._batches.outcome(running, batch, item)
            return self._returned(running, answer.value) if isinstance(answer, Answered) else answer

        async def call() -> Any:
            self._cancel_timer(running)  # the call has its own
            answer = await self._batches.outcome(running, batch, item)
            self._set_timer(running)
            match answer:
                case Answered(value):
                    return value
                case Raised(error):
                    # All jobs of a call may get the same exception. Each adds its own frames.
                    raise error.with_traceback(failure.of_the_handler(error))
                case _:
                    raise Ended(answer)

        self._set_timer(running)
        return self._returned(running, await self._around(running, call))

    def _around(self, running: RunningJob, call: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        job = info_of(running.claim)
        attempt = running.definition.hooks.attempt
        return around(attempt, job, call, lambda: running.reason is not None)

    async def _call(
        self, running: RunningJob, arguments: dict[str, Any], *, wrapped: bool = False
    ) -> Any:
        """Call a handler for one job. `wrapped`: its middleware is around this call already."""
        definition = running.definition
        if definition.hooks.attempt and not wrapped:
            return await self._around(running, lambda: self._call(running, arguments, wrapped=True))
        if definition.context_parameter is not None:
            arguments[definition.context_parameter] = self._context(running)
        if not definition.dependencies:
            return await self._handler([running], arguments)
        return await self._injected([running], arguments, lambda: self._context(running))

    async def _call_batch(
        self, definition: Definition, together: Sequence[RunningJob], items: list[Any]
    ) -> Any:
        """Call a handler once for several jobs."""
        arguments: dict[str, Any] = dict.fromkeys(definition.call_signature.parameters, items)
        if definition.context_parameter is not None:
            arguments[definition.context_parameter] = [self._context(one) for one in together]
        return await self._injected(together, arguments, partial(_no_context, definition))

    async def _injected(
        self,
        together: Sequence[RunningJob],
        arguments: dict[str, Any],
        context: Callable[[], Context],
    ) -> Any:
        wanted = together[0].definition.dependencies
        async with AsyncExitStack() as stack:
            arguments |= await self._injector.resolve(wanted, stack, context)
            return await self._handler(together, arguments)

    def _handler(self, together: Sequence[RunningJob], arguments: dict[str, Any]) -> Awaitable[Any]:
        """Call a handler, for one job or for the jobs of a batch."""
        definition = together[0].definition
        if definition.executor == "async":
            return definition.function(**arguments)  # type: ignore[no-any-return]
        function = definition.function
        if definition.hooks.plain:
            job = info_of(together[0].claim, len(together))
            function = around_plain(definition.hooks.plain, job, function)
        return self._threads.call(function, arguments, partial(_grace, together))

    def _prepare(self, running: RunningJob) -> None:
        """Set the timeout and the policy: the step's own, else the job's, else the task's."""
        definition = running.definition
        running.timeout = definition.timeout_seconds
        if running.claim.options is not None:
            options = running.options = codec.decode(running.claim.options)
            if "timeout" not in definition.own:
                running.timeout = options.get("timeout", running.timeout)
            if "retry" in options and "retry" not in definition.own:
                running.policy = definition.retry.with_stored(options["retry"])

    def begin(self, running: RunningJob) -> None:
        """Record that the handler begins. Its timeout counts from now on."""
        # As `_began`, without a call: most jobs pass here.
        running.started = True
        if self._on_start is not None:
            self._on_start(running.claim)
        if running.timeout is not None:
            self._set_timer(running)

    def _began(self, running: RunningJob) -> None:
        running.started = True
        if self._on_start is not None:
            self._on_start(running.claim)

    def _set_timer(self, running: RunningJob) -> None:
        if running.timeout is not None:
            running.times_out_at = self._clock.after(running.timeout)
            running.timer = asyncio.get_running_loop().call_later(
                running.timeout, self._owner.stop, running.claim.id, "timeout"
            )

    def _cancel_timer(self, running: RunningJob) -> None:
        if running.timer is not None:
            running.timer.cancel()

    def _answer(self, running: RunningJob, value: Any) -> Answer:
        if running.definition.hooks.attempt:
            return Answered(value)
        return self._returned(running, value)

    def _returned(self, running: RunningJob, value: Any) -> Returned | Moved | Broke:
        return outcome_of(
            running.definition, value, running.context, running.options or {}, self._max_result
        )

    def _context(self, running: RunningJob) -> Context:
        if running.context is None:
            claim, loop = running.claim, asyncio.get_running_loop()
            note = partial(_note_from_any_thread, loop, partial(self._owner.note, claim))
            stopped = running.reason is not None
            running.context = context_of(
                claim, running.definition, running.timeout, note, self._clock, stopped=stopped
            )
        return running.context


class _Reports:
    """Takes in the reports of a child process: `AttemptEvents`."""

    def __init__(self, running: RunningJob, handlers: Handlers, owner: JobOwner) -> None:
        self._running = running
        self._handlers = handlers
        self._owner = owner

    def begun(self) -> None:
        self._handlers.begin(self._running)

    def progressed(self, progress: dict[str, Any]) -> None:
        self._owner.note(self._running.claim, progress)


def _may_wait(outcome: Outcome) -> TypeGuard[Returned | Moved]:
    """Return whether it makes jobs with unique keys. An open transaction may hold such a key."""
    return (
        isinstance(outcome, (Returned, Moved))  # a union would be made anew for every job
        and outcome.children is not None
        and any(child.unique_key is not None for child in outcome.children)
    )


def _grace(together: Sequence[RunningJob]) -> float:
    """Return the seconds that a plain function has to end by itself.

    It has none if it cannot see that it must stop, or if other workers may run its jobs already.
    """
    looks = any(running.context is not None for running in together)
    urgent = any(running.reason in ("lost", "shutdown") for running in together)
    return together[0].definition.stop_grace_seconds if looks and not urgent else 0.0


def _no_context(definition: Definition) -> NoReturn:
    raise ConfigError(
        f"a dependency of {definition.handler} takes a Context, but a batch has one for each of its "
        "jobs; take a list[Context] in the handler instead"
    )


def _note_from_any_thread(
    loop: asyncio.AbstractEventLoop,
    note: Callable[[dict[str, Any]], None],
    progress: dict[str, Any],
) -> None:
    loop.call_soon_threadsafe(note, progress)
