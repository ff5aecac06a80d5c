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
from headway.core.verdict import Broke, Outcome, Raised, Returned
from headway.engine.child import serve
from headway.errors import InvalidInput, Snooze

_spawn = multiprocessing.get_context("spawn")


class Child:
    """One child process and the pipe to it."""

    def __init__(self) -> None:
        self.pipe, theirs = _spawn.Pipe()
        self.process = _spawn.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def bury(self) -> None:
        """Kills it and closes the pipe, once nobody reads from that any more."""
        self.kill()
        self.pipe.close()


class Processes:
    """At most `most` children, started when needed and kept for the next job."""

    def __init__(self, most: int, max_result: int) -> None:
        self._max_result = max_result
        self._free = asyncio.Semaphore(most)
        self._idle: list[Child] = []
        self._waits = ThreadPoolExecutor(most, thread_name_prefix="headway-process")

    async def call(
        self,
        definition: Definition,
        context: Context,
        input_: str,
        started: Callable[[], None],
        note: Callable[[dict[str, Any]], None],
    ) -> Outcome:
        """The outcome of running a job in a child; cancelling it kills the child.

        `started` is called when a child is free for it.
        """
        async with self._free:
            started()
            loop = asyncio.get_running_loop()
            child = self._child()
            request = {
                "module": definition.function.__module__,
                "name": definition.function.__qualname__,
                "input": codec.Raw(input_.encode()),
                "job_id": str(context.job_id),
                "queue": context.queue,
                "attempt": context.attempt,
                "max_attempts": context.max_attempts,
                "headers": dict(context.headers),
                "deadline": context.deadline and context.deadline.isoformat(),
            }

            def told(progress: dict[str, Any]) -> None:
                loop.call_soon_threadsafe(note, progress)

            exchange = loop.run_in_executor(
                self._waits,
                _converse,
                child.pipe,
                codec.encode(request),
                told,
            )
            try:
                reply = await asyncio.shield(exchange)
            except (EOFError, OSError):
                child.process.join()
                child.pipe.close()
                return Broke(_died(child.process.exitcode), again=True)
            except asyncio.CancelledError:
                child.kill()
                await asyncio.wait([exchange])
                exchange.exception()
                child.bury()
                raise
            self._idle.append(child)
            return self._outcome(reply)

    def close(self) -> None:
        for child in self._idle:
            child.bury()
        self._idle.clear()
        self._waits.shutdown(wait=False, cancel_futures=True)

    def _child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.process.is_alive():
                return child
            child.bury()  # it died while it had nothing to do: no job's fault
        return Child()

    def _outcome(self, reply: dict[str, Any]) -> Outcome:
        """What a child's reply means. Whether to try again was decided where the exception lives."""
        if "snooze" in reply:
            return Raised(Snooze(reply["snooze"]))
        if "error" in reply:
            return Broke(reply["error"], again=reply["again"])
        try:
            encoded = codec.encode(reply["result"])
            return Returned(codec.check_size(encoded, self._max_result, "the result"))
        except InvalidInput as error:
            note = failure.envelope_of(error) | {"type": failure.INVALID_RESULT}
            return Broke(note, again=False)


def _converse(pipe: Connection, request: bytes, note: Callable[[Any], Any]) -> dict[str, Any]:
    pipe.send_bytes(request)
    while True:
        message: dict[str, Any] = codec.decode(pipe.recv_bytes())
        if "progress" not in message:
            return message
        note(message["progress"])


def _died(exitcode: int | None) -> failure.Envelope:
    how = (
        f"by {signal.Signals(-exitcode).name}"
        if exitcode is not None and exitcode < 0
        else f"with exit code {exitcode}"
    )
    return failure.envelope(failure.PROCESS_DIED, f"the process that ran the job ended {how}")
