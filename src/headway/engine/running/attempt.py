"""One attempt of a job, from its claim to its outcome: decode the input, call the handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NoReturn, Protocol, TypeGuard

from headway.core import codec, failure
from headway.core.clock import Clock
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.verdict import Broke, Moved, Outcome, Returned
from headway.engine.running.batches import Batches
from headway.engine.running.child import Prepare
from headway.engine.running.contexts import context_of
from headway.engine.running.invoke import Injector, Overrides
from headway.engine.running.job import Reason, RunningJob, ended_by
from headway.engine.running.outcomes import outcome_of
from headway.engine.running.processes import Processes
from headway.engine.running.threads import Abandoned, Threads
from headway.engine.running.transactional import SettledInTransaction, TransactionalSettler
from headway.errors import ConfigError, InvalidInput
from headway.store.rows import Claim


class Isolate(Protocol):
    """Runs a job in a child process. It calls `started` when the handler begins, and `note` with its
    progress."""

    def __call__(
        self,
        running: RunningJob,
        started: Callable[[], None],
        note: Callable[[dict[str, Any]], None],
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
        stop: Callable[[str, Reason], None],
        note: Callable[[Claim, dict[str, Any]], None],
        clock: Clock,
        isolate: Isolate | None = None,
    ) -> None:
        """`stop` stops a job at its timeout. `note` takes progress. `isolate` runs a job in a child
        process."""
        self._threads = Threads(threads)
        self._processes = Processes(processes, max_result, prepare_child, clock)
        self._injector = Injector(overrides)
        self._max_result = max_result
        self._transactional = transactional
        self._stop = stop
        self._note = note
        self._clock = clock
        self._isolate = isolate
        self._batches = Batches(
            call=self._call_batch, returned=self._returned, stop=stop, clock=clock
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
        try:
            if running.reason is not None:
                raise asyncio.CancelledError  # stopped before it began
            self._prepare(running)
            if running.isolated and self._isolate is not None:
                begin, note = partial(self._begin, running), partial(self._note, running.claim)
                return await self._isolate(running, begin, note)
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
                    lambda: self._begin(running),
                    partial(self._note, running.claim),
                )
            if definition.transaction:
                return await self._in_transaction(running, arguments)
            outcome: Outcome
            if definition.batch is not None:
                (item,) = arguments.values()
                outcome = await self._batches.outcome(running, definition.batch, item)
            else:
                self._begin(running)
                outcome = self._returned(running, await self._call(running, arguments))
            if _may_wait(outcome):
                return await self._settle_apart(running, outcome)
            return outcome
        except BaseException as error:  # a job must not end the worker
            return ended_by(running, error)
        finally:
            if running.timer is not None:
                running.timer.cancel()

    async def _in_transaction(
        self, running: RunningJob, arguments: dict[str, Any]
    ) -> Outcome | SettledInTransaction:
        """Run the handler in a transaction that commits if, and only if, it succeeds."""
        lent = await self._transactional.begin(sync=running.definition.executor == "thread")
        try:
            self._context(running).lend(lent.conn)
            self._begin(running)
            outcome = self._returned(running, await self._call(running, arguments))
            if not isinstance(outcome, Broke):
                # From here on the database decides. Nothing may stop the commit half way.
                running.settling = True
                if running.timer is not None:
                    running.timer.cancel()
                return await self._transactional.settle(lent, running.claim, outcome)
        except Abandoned as error:
            lent.abandon(error.done)
            raise
        except BaseException:
            await lent.rollback()
            raise
        await lent.rollback()
        return outcome

    async def _settle_apart(
        self, running: RunningJob, outcome: Returned | Moved
    ) -> Outcome | SettledInTransaction:
        """Settle a job on a connection of its own, because it may wait for a caller's open transaction.

        In a batch it would delay all other jobs. The job can be stopped until there is a connection.
        """
        lent = await self._transactional.begin_apart()
        running.settling = True
        try:
            return await self._transactional.settle(lent, running.claim, outcome)
        except BaseException:
            await lent.rollback()
            raise

    async def _call(self, running: RunningJob, arguments: dict[str, Any]) -> Any:
        definition = running.definition
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
        return self._threads.call(definition.function, arguments, partial(_grace, together))

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

    def _begin(self, running: RunningJob) -> None:
        running.started = True
        if running.timeout is not None:
            running.times_out_at = self._clock.after(running.timeout)
            running.timer = asyncio.get_running_loop().call_later(
                running.timeout, self._stop, running.claim.id, "timeout"
            )

    def _returned(self, running: RunningJob, value: Any) -> Returned | Moved | Broke:
        return outcome_of(
            running.definition, value, running.context, running.options or {}, self._max_result
        )

    def _context(self, running: RunningJob) -> Context:
        if running.context is None:
            claim, loop = running.claim, asyncio.get_running_loop()
            note = partial(_note_from_any_thread, loop, partial(self._note, claim))
            stopped = running.reason is not None
            running.context = context_of(
                claim, running.definition, running.timeout, note, self._clock, stopped=stopped
            )
        return running.context


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
