"""One job on this worker, from its claim to its outcome: decode, call, and know why it was stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NoReturn, Protocol, TypeGuard

from headway.core import codec, failure
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.verdict import Broke, Moved, Outcome, Returned
from headway.engine.running.batches import Batches
from headway.engine.running.child import Prepare
from headway.engine.running.contexts import context_of
from headway.engine.running.invoke import Injector, Overrides
from headway.engine.running.job import Reason, Running, ended_by
from headway.engine.running.outcomes import outcome_of
from headway.engine.running.processes import Processes
from headway.engine.running.threads import Abandoned, Threads
from headway.engine.running.transactional import Booked, Books
from headway.errors import ConfigError, InvalidInput
from headway.store.rows import Claim


class Isolate(Protocol):
    """Runs a job in a child process. `started` is called when its handler begins, `note` with its
    progress."""

    def __call__(
        self,
        running: Running,
        started: Callable[[], None],
        note: Callable[[dict[str, Any]], None],
    ) -> Awaitable[Outcome | Booked]: ...


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
        books: Books,
        stop: Callable[[str, Reason], None],
        note: Callable[[Claim, dict[str, Any]], None],
        isolate: Isolate | None = None,
    ) -> None:
        """`stop` is how a timeout stops a job, `note` where its progress goes, `isolate` runs a job in a
        child process."""
        self._threads = Threads(threads)
        self._processes = Processes(processes, max_result, prepare_child)
        self._injector = Injector(overrides)
        self._max_result = max_result
        self._books = books
        self._stop = stop
        self._note = note
        self._isolate = isolate
        self._batches = Batches(call=self._call_batch, returned=self._returned, stop=stop)

    def hurry(self) -> None:
        """There is no time left for handlers to end by themselves."""
        self._threads.hurry()

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
        except BaseException as error:  # nothing a job does may end the worker
            return ended_by(running, error)
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
        """Settle on a connection of its own what may have to wait for somebody's open transaction: in a
        batch it would hold up all the others. Until there is such a connection the job can be stopped."""
        lent = await self._books.lend_apart()
        running.settling = True
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
            return await self._handler([running], arguments)
        return await self._injected([running], arguments, lambda: self._context(running))

    async def _call_batch(
        self, definition: Definition, together: Sequence[Running], items: list[Any]
    ) -> Any:
        """One call of a handler for several jobs."""
        arguments: dict[str, Any] = dict.fromkeys(definition.call_signature.parameters, items)
        if definition.context_parameter is not None:
            arguments[definition.context_parameter] = [self._context(one) for one in together]
        return await self._injected(together, arguments, partial(_no_context, definition))

    async def _injected(
        self, together: Sequence[Running], arguments: dict[str, Any], context: Callable[[], Context]
    ) -> Any:
        wanted = together[0].definition.dependencies
        async with AsyncExitStack() as stack:
            arguments |= await self._injector.resolve(wanted, stack, context)
            return await self._handler(together, arguments)

    def _handler(self, together: Sequence[Running], arguments: dict[str, Any]) -> Awaitable[Any]:
        """The call of a handler, for one job or for those of a batch."""
        definition = together[0].definition
        if definition.executor == "async":
            return definition.function(**arguments)  # type: ignore[no-any-return]
        return self._threads.call(definition.function, arguments, partial(_grace, together))

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
            claim, loop = running.claim, asyncio.get_running_loop()
            note = partial(_note_from_any_thread, loop, partial(self._note, claim))
            stopped = running.reason is not None
            running.context = context_of(
                claim, running.definition, running.timeout, note, stopped=stopped
            )
        return running.context


def _may_wait(outcome: Outcome) -> TypeGuard[Returned | Moved]:
    """Whether it makes jobs with unique keys, which an open transaction may have taken."""
    return isinstance(outcome, Returned | Moved) and any(
        child.unique_key is not None for child in outcome.children or ()
    )


def _grace(together: Sequence[Running]) -> float:
    """Return the seconds that a plain function has to end by itself: none if it cannot know that it is
    to stop, or if others may already run its jobs."""
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
