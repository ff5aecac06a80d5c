"""The inside of a child process that runs jobs: the other end of `processes.py`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from multiprocessing.connection import Connection
from typing import Any, Protocol

from headway.core import codec, failure
from headway.core.clock import Clock
from headway.core.context import Note
from headway.core.current import CLAIMED, info_of
from headway.core.definition import Definition
from headway.core.verdict import Broke, Outcome, Raised
from headway.engine import logs
from headway.engine.running.child_messages import (
    ChildReply,
    Message,
    Request,
    encode,
    reply_of,
    request_in,
)
from headway.engine.running.contexts import context_of
from headway.engine.running.invoke import Injector
from headway.engine.running.middleware import around, around_plain
from headway.engine.running.outcomes import outcome_of
from headway.errors import ConfigError, InvalidInput
from headway.store.rows import Claim

Say = Callable[[Message], None]


class Prepare(Protocol):
    """The set-up of a child: sent to it, and called there before the first job."""

    @property
    def loads_app(self) -> bool:
        """Whether the child gets the definitions of the whole app."""
        ...

    def __call__(self) -> Mapping[str, Definition]:
        """Return the app's definitions by handler, or none of them if the app cannot be loaded again."""
        ...


def serve(pipe: Connection, prepare: Prepare, max_result: int) -> None:
    """Run tasks with `executor="process"`."""

    def run(request: Request, definition: Definition, say: Say) -> None:
        outcome = asyncio.run(
            call(
                definition,
                request.claim,
                request.timeout,
                max_result,
                lambda progress: say(Message(progress=progress)),
                Clock(request.now),
            )
        )
        say(Message(reply=reply_of(outcome, definition.retry)))

    attend(pipe, prepare, run)


def attend(
    pipe: Connection,
    prepare: Prepare,
    run: Callable[[Request, Definition, Say], None],
) -> None:
    """Run one job after another until the worker is gone. `run` sends the reply."""
    # Ctrl-C reaches the whole process group, but the worker decides when its children end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    termination = _Termination()
    signal.signal(signal.SIGTERM, termination.asked)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    definitions = functools.cache(prepare)  # called again only if it failed
    one_at_a_time = threading.Lock()

    def say(message: Message) -> None:
        with one_at_a_time:  # handlers may report progress from several threads
            pipe.send_bytes(encode(message))

    with contextlib.suppress(EOFError, OSError):
        while True:
            received = pipe.recv_bytes()
            with termination.put_off():
                request = request_in(received)
                try:
                    definition = find(definitions(), request)
                except BaseException as error:
                    # The job is not to blame, and another child may work.
                    say(Message(reply=ChildReply(error=failure.envelope_of(error), again=True)))
                    continue
                logs.name_jobs()  # the app, or the task's module, has set up logging by now
                say(Message(begun=True))
                run(request, definition, say)


def find(definitions: Mapping[str, Definition], request: Request) -> Definition:
    """Return the definition that runs a job: the app's, or else that of the module.

    Raise ConfigError if neither has it.
    """
    if (known := definitions.get(request.claim.handler)) is not None:
        return known
    found: Any = importlib.import_module(request.module)
    for part in request.name.split("."):
        found = getattr(found, part, None)
    definition = getattr(found, "definition", None)
    if not isinstance(definition, Definition):
        raise ConfigError(
            f"the child process cannot find {request.claim.handler}: {request.module} has no "
            f"{request.name}; define the task in a module that the app imports"
        )
    return definition


async def call(
    definition: Definition,
    claim: Claim,
    timeout: float | None,
    max_result: int,
    note: Note,
    clock: Clock,
) -> Outcome:
    """Call a process task here and return its outcome. Never raise."""
    CLAIMED.set(claim)
    try:
        try:
            context = context_of(claim, definition, timeout, note, clock)
            arguments = definition.parameters.decode(claim.input)
        except InvalidInput as error:
            return Broke(failure.envelope_of(error, failure.INVALID_INPUT), again=False)
        if definition.context_parameter:
            arguments[definition.context_parameter] = context
        injector = Injector({})
        try:
            async with contextlib.AsyncExitStack() as stack:
                arguments |= await injector.resolve(definition.dependencies, stack, lambda: context)
                result = await _called(definition, claim, arguments)
        finally:
            await injector.close()
        options: dict[str, Any] = {} if claim.options is None else codec.decode(claim.options)
        return outcome_of(definition, result, context, options, max_result)
    except BaseException as error:
        return Raised(error)


async def _called(definition: Definition, claim: Claim, arguments: dict[str, Any]) -> Any:
    """Call the function of a process task, with its middleware around it."""
    function, hooks = definition.function, definition.hooks
    if hooks.plain:
        function = around_plain(hooks.plain, info_of(claim), function)
    if not hooks.attempt:
        return function(**arguments)

    async def handler() -> Any:
        # In a thread: some libraries, such as Django, refuse to block where an event loop runs.
        return await asyncio.to_thread(function, **arguments)

    # The worker kills this process if the attempt must stop.
    return await around(hooks.attempt, info_of(claim), handler, lambda: False)


class _Termination:
    """SIGTERM ends an idle child, but does not interrupt a job.

    A service manager may send it to the whole process group. The worker then drains, and kills its
    children when it wants them to end.
    """

    def __init__(self) -> None:
        self._busy = False
        self._asked = False

    def asked(self, *_: Any) -> None:
        self._asked = True
        if not self._busy:
            os._exit(0)

    @contextlib.contextmanager
    def put_off(self) -> Generator[None]:
        """Let the job inside finish first."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            if self._asked:
                os._exit(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
