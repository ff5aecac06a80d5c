"""Child processes that run jobs and can be killed, and tasks with `executor="process"`.

A child imports the module that defines the task, then runs one job at a time. It receives a request, and
sends progress and one reply (`child_messages.py`). Stopping a job kills its child, and the next job gets
a new one. A child ends when its worker ends, in whatever way.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from headway.core import failure
from headway.core.clock import Clock
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.verdict import Outcome
from headway.engine.running.child import Prepare, serve
from headway.engine.running.child_messages import (
    ChildReply,
    Message,
    Request,
    encode,
    message_in,
    outcome_in,
)
from headway.engine.running.job import AttemptEvents
from headway.engine.running.transactional import SettledInTransaction
from headway.errors import ConfigError
from headway.store.rows import Claim

_spawn = multiprocessing.get_context("spawn")
_DIES_WITHIN = 1.0
_BEGINS_WITHIN = 60.0
"""Seconds for a child to import the app. A child that takes longer is killed."""
_CHECK_EVERY = 1.0
"""Seconds between two checks that a silent child is alive. A process that the handler forked may hold
its pipe open."""


class Child:
    """One child process and the pipe to it."""

    def __init__(self, serve: Callable[..., None], *args: Any) -> None:
        """`serve` is called in the child with the other end of the pipe and `args`."""
        self.pipe, theirs = _spawn.Pipe()
        self.process = _spawn.Process(target=serve, args=(theirs, *args), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def reap(self) -> None:
        """Wait until it is dead and close the pipe. This blocks. No thread may still read the pipe."""
        self.process.join(_DIES_WITHIN)  # a child that is already dying keeps its own exit code
        self.kill()
        self.pipe.close()


class Children:
    """At most `most` children, started when needed and kept for the next job."""

    def __init__(self, most: int, start: Callable[[], Child]) -> None:
        self._most = most
        self._start = start
        self._room = asyncio.Semaphore(most)
        self._busy: set[Child] = set()
        self._idle: list[Child] = []
        self._waits = ThreadPoolExecutor(most, thread_name_prefix="headway-process")

    @property
    def free(self) -> int:
        """How many more jobs can run now."""
        return self._most - len(self._busy)

    async def ask(self, request: Request, receive: Callable[[Message], None]) -> ChildReply:
        """Return the reply of a child that runs this job. Cancelling it kills the child.

        `receive` is called with every message before the reply. If the child died, the reply is an error.
        """
        encoded = encode(request)
        async with self._room:
            while True:
                warm = bool(self._idle)
                try:
                    child = self._idle.pop() if warm else self._start()
                except Exception as error:
                    words = f"could not start a process for {request.claim.handler}: {error}"
                    return _not_begun(words, error)
                self._busy.add(child)
                conversation = _Conversation(child, encoded)
                try:
                    reply = await self._reply(child, conversation, receive)
                except Exception:  # it died, or its message cannot be decoded
                    await self._off_loop(child.reap)
                    if not conversation.begun and warm:
                        continue  # it died while it was idle
                    return _died(request.claim.handler, child.process.exitcode, conversation.begun)
                finally:
                    self._busy.discard(child)
                self._idle.append(child)
                return reply

    def close(self) -> None:
        """Kill all children."""
        for child in [*self._idle, *self._busy]:
            child.kill()
        for child in self._idle:  # busy children are reaped where their reply is awaited
            child.reap()
        self._idle.clear()
        self._waits.shutdown(wait=False, cancel_futures=True)

    async def _off_loop(self, function: Callable[[], None]) -> None:
        """Make a blocking call in a thread. The thread that talked to the child is free for it."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._waits, function)
        except RuntimeError:  # the thread pool was shut down, because the worker ends
            function()

    async def _reply(
        self, child: Child, conversation: _Conversation, receive: Callable[[Message], None]
    ) -> ChildReply:
        loop = asyncio.get_running_loop()
        late = loop.call_later(_BEGINS_WITHIN, child.process.kill)

        def on_loop(message: Message) -> None:
            if message.begun:
                late.cancel()
            receive(message)

        def from_thread(message: Message) -> None:
            loop.call_soon_threadsafe(on_loop, message)

        talking = loop.run_in_executor(self._waits, conversation.hold, from_thread)
        try:
            return await asyncio.shield(talking)
        except asyncio.CancelledError:
            child.process.kill()
            await asyncio.wait([talking])
            talking.exception()
            await self._off_loop(child.reap)
            raise
        finally:
            late.cancel()


class Processes:
    """Runs tasks with `executor="process"`."""

    def __init__(self, most: int, max_result: int, prepare: Prepare, clock: Clock) -> None:
        """`prepare` is called in each child before it runs its first job."""
        self._clock = clock
        self._children = Children(most, lambda: Child(serve, prepare, max_result))

    async def call(
        self,
        definition: Definition,
        context: Context,
        claim: Claim,
        events: AttemptEvents,
    ) -> Outcome | SettledInTransaction:
        """Return the outcome of running a job in a child. Cancelling it kills the child."""
        deadline, now = context.deadline, context.now()
        timeout = None if deadline is None else (deadline - now).total_seconds()
        request = replace(request_for(definition, claim, timeout), now=self._clock.now())
        return outcome_in(await self._children.ask(request, reporting(events)))

    def close(self) -> None:
        self._children.close()


def request_for(definition: Definition, claim: Claim, timeout: float | None) -> Request:
    """Return the request to run a claimed job."""
    function = definition.function
    return Request(claim, function.__module__, function.__qualname__, timeout)


def reporting(events: AttemptEvents) -> Callable[[Message], None]:
    """Return a receiver of a child's messages about an attempt."""

    def receive(message: Message) -> None:
        if message.begun:
            events.begun()
        if message.progress is not None:
            events.progressed(message.progress)

    return receive


class _Conversation:
    """A request and a child's messages about it. It runs in a thread."""

    def __init__(self, child: Child, request: bytes) -> None:
        self._child = child
        self._request = request
        self.begun = False
        """The child has begun the job. If it dies before that, the job is not to blame."""

    def hold(self, receive: Callable[[Message], None]) -> ChildReply:
        """Return the child's reply. Raise EOFError or OSError if the child died."""
        self._child.pipe.send_bytes(self._request)
        while True:
            self._wait()
            message = message_in(self._child.pipe.recv_bytes())
            if message.reply is not None:
                return message.reply
            self.begun = self.begun or message.begun
            receive(message)

    def _wait(self) -> None:
        """Wait until there is something to read. Raise EOFError if the child died."""
        pipe, process = self._child.pipe, self._child.process
        while not pipe.poll(_CHECK_EVERY):
            if process.exitcode is not None and not pipe.poll():
                raise EOFError


def _died(handler: str, exitcode: int | None, begun: bool) -> ChildReply:
    how = f"with exit code {exitcode}"
    if exitcode is not None and exitcode < 0:
        names = {number.value: number.name for number in signal.Signals}
        how = f"by {names.get(-exitcode, f'signal {-exitcode}')}"
    if begun:
        words = f"the process that ran the job ended {how}"
        return ChildReply(error=failure.envelope(failure.PROCESS_DIED, words), again=True)
    return _not_begun(
        f"the process for {handler} ended {how} before it had imported the task; see its error on "
        "standard error, and start workers only under if __name__ == '__main__'"
    )


def _not_begun(words: str, cause: Exception | None = None) -> ChildReply:
    """Return the reply for a job that never began. The environment is to blame, not the job."""
    error = ConfigError(words)
    error.__cause__ = cause
    return ChildReply(error=failure.envelope_of(error), again=True)
