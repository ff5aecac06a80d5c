"""Tasks with `executor="process"`: a few child processes that can be killed.

A child imports the module that defines the task, then runs one job at a time: a request in, notes of
progress and one reply out, all JSON over a pipe. Stopping a job kills its child, and the next job
gets a new one. A child ends by itself when its worker does, however that ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

from headway.core import codec, failure
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.duration import seconds
from headway.core.verdict import Broke, Outcome, Raised, Returned
from headway.engine.invoke import Injector
from headway.errors import Fatal, InvalidInput, Snooze

_spawn = multiprocessing.get_context("spawn")


class Child:
    """One child process and the pipe to it."""

    def __init__(self) -> None:
        self.pipe, theirs = _spawn.Pipe()
        self.process = _spawn.Process(target=_serve, args=(theirs,), daemon=True)
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


# -- in the child ---------------------------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    # Ctrl-C reaches the whole group; the worker decides what becomes of its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = codec.decode(pipe.recv_bytes())
            reply = asyncio.run(
                _run(request, lambda p: pipe.send_bytes(codec.encode({"progress": p})))
            )
            pipe.send_bytes(codec.encode(reply))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


async def _run(request: dict[str, Any], note: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    definition: Definition | None = None
    try:
        definition = _find(request["module"], request["name"])
        context = Context(
            job_id=UUID(request["job_id"]),
            task=definition.name,
            queue=request["queue"],
            attempt=request["attempt"],
            max_attempts=request["max_attempts"],
            headers=request["headers"],
            deadline=request["deadline"] and datetime.fromisoformat(request["deadline"]),
            _note=note,
        )
        arguments = definition.parameters.decode(codec.encode(request["input"]))
        if definition.context_parameter:
            arguments[definition.context_parameter] = context
        injector = Injector({})
        try:
            async with contextlib.AsyncExitStack() as stack:
                arguments |= await injector.resolve(definition.dependencies, stack, lambda: context)
                result = definition.function(**arguments)
        finally:
            await injector.close()
        return _result(result)
    except Snooze as snooze:
        return _snoozed(snooze)
    except InvalidInput as error:
        return {
            "error": failure.envelope_of(error) | {"type": failure.INVALID_INPUT},
            "again": False,
        }
    except BaseException as error:
        again = not isinstance(error, Fatal) and (
            definition is None or definition.retry.covers(error)
        )
        return {"error": failure.envelope_of(error), "again": again}


def _result(value: Any) -> dict[str, Any]:
    try:
        return {"result": codec.Raw(codec.encode(value))}
    except InvalidInput as error:
        note = failure.envelope_of(error) | {"type": failure.INVALID_RESULT}
        return {"error": note, "again": False}


def _snoozed(snooze: Snooze) -> dict[str, Any]:
    try:
        return {"snooze": seconds(snooze.delay, name="Snooze")}
    except Exception as error:
        return {"error": failure.envelope_of(error), "again": False}


def _find(module: str, name: str) -> Definition:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    definition: Definition = found.definition
    return definition
