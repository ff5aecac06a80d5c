"""Tasks with `executor="process"`: a few child processes that can be killed.

A child imports the module that defines the task, then runs one job at a time: a request in, notes of
progress and one reply out, all JSON over a pipe. Stopping a job kills its child, and the next job
gets a new one. A child ends by itself when its worker does, however that ended.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from headway.core import codec, failure
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.flow import Advance
from headway.core.verdict import Broke, Moved, Outcome, Raised, Returned
from headway.engine.running.child import serve
from headway.errors import Snooze
from headway.store.documents import NewJob
from headway.store.rows import Claim

_CHILDREN = codec.Shape[list[NewJob]](list[NewJob])
_spawn = multiprocessing.get_context("spawn")
_DIES_WITHIN = 1.0


class Child:
    """One child process and the pipe to it."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        self.pipe, theirs = _spawn.Pipe()
        self.process = _spawn.Process(target=serve, args=(theirs, prepare), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def bury(self) -> None:
        """Sees it dead and closes the pipe, once nobody reads from that any more."""
        self.process.join(_DIES_WITHIN)  # one that is dying by itself keeps its own exit code
        self.kill()
        self.pipe.close()


class Processes:
    """At most `most` children, started when needed and kept for the next job."""

    def __init__(self, most: int, max_result: int, prepare: Callable[[], None]) -> None:
        """`prepare` is called in each child before it runs its first job."""
        self._max_result = max_result
        self._prepare = prepare
        self._free = asyncio.Semaphore(most)
        self._idle: list[Child] = []
        self._waits = ThreadPoolExecutor(most, thread_name_prefix="headway-process")

    async def call(
        self,
        definition: Definition,
        context: Context,
        claim: Claim,
        options: dict[str, Any],
        started: Callable[[], None],
        note: Callable[[dict[str, Any]], None],
    ) -> Outcome:
        """The outcome of running a job in a child; cancelling it kills the child.

        `started` is called when a child is free for it.
        """
        async with self._free:
            started()
            loop = asyncio.get_running_loop()
            request = codec.encode(
                {
                    "module": definition.function.__module__,
                    "name": definition.function.__qualname__,
                    "input": codec.Raw(claim.input.encode()),
                    "carried": claim.carried,
                    "options": options,
                    "most_bytes": self._max_result,
                    "job_id": str(context.job_id),
                    "queue": context.queue,
                    "attempt": context.attempt,
                    "max_attempts": context.max_attempts,
                    "headers": dict(context.headers),
                    "deadline": context.deadline and context.deadline.isoformat(),
                }
            )

            def told(progress: dict[str, Any]) -> None:
                loop.call_soon_threadsafe(note, progress)

            while True:
                warm = bool(self._idle)
                child = self._idle.pop() if warm else Child(self._prepare)
                conversation = _Conversation(child.pipe, request, told)
                try:
                    reply = await self._reply(child, conversation)
                except (EOFError, OSError):
                    child.bury()
                    if warm and not conversation.begun:
                        continue  # it died while it had nothing to do: no job's fault
                    return Broke(_died(child.process.exitcode), again=True)
                self._idle.append(child)
                return self._outcome(reply)

    async def _reply(self, child: Child, conversation: _Conversation) -> dict[str, Any]:
        exchange = asyncio.get_running_loop().run_in_executor(self._waits, conversation.hold)
        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            child.kill()
            await asyncio.wait([exchange])
            exchange.exception()
            child.bury()
            raise

    def close(self) -> None:
        for child in self._idle:
            child.kill()
            child.bury()
        self._idle.clear()
        self._waits.shutdown(wait=False, cancel_futures=True)

    def _outcome(self, reply: dict[str, Any]) -> Outcome:
        """What a child's reply means. Whether to try again was decided where the exception lives."""
        if "snooze" in reply:
            return Raised(Snooze(reply["snooze"]))
        if "error" in reply:
            return Broke(reply["error"], again=reply["again"])
        carried = codec.encode(reply["carried"]) if "carried" in reply else None
        made = reply.get("children")
        children = None if made is None else _CHILDREN.decode(codec.encode(made))
        if "advance" in reply:
            move = Advance(input=codec.encode(reply["input"]), **reply["advance"])
            return Moved(move, carried, children)
        return Returned(codec.encode(reply["result"]), carried, children)


class _Conversation:
    """A request and what a child says to it, held in a thread."""

    def __init__(self, pipe: Connection, request: bytes, note: Callable[[Any], None]) -> None:
        self._pipe = pipe
        self._request = request
        self._note = note
        self.begun = False
        """The child has taken the request up; before that, its death is not the job's doing."""

    def hold(self) -> dict[str, Any]:
        """The child's reply; EOFError or OSError if it died."""
        self._pipe.send_bytes(self._request)
        while True:
            message: dict[str, Any] = codec.decode(self._pipe.recv_bytes())
            self.begun = True
            if "progress" in message:
                self._note(message["progress"])
            elif "begun" not in message:
                return message


def _died(exitcode: int | None) -> failure.Envelope:
    how = (
        f"by {signal.Signals(-exitcode).name}"
        if exitcode is not None and exitcode < 0
        else f"with exit code {exitcode}"
    )
    return failure.envelope(failure.PROCESS_DIED, f"the process that ran the job ended {how}")
