"""The inside of a child process that runs jobs: what `processes.py` talks to."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from datetime import datetime
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

from headway.core import codec, failure
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.duration import seconds
from headway.core.verdict import Broke, Moved, Returned
from headway.engine.running.invoke import Injector
from headway.engine.running.outcomes import outcome_of, state_of
from headway.errors import Fatal, InvalidInput, Snooze


def serve(pipe: Connection, prepare: Callable[[], None]) -> None:
    """Runs one job after another until the worker is gone; `prepare` comes before the first."""
    # Ctrl-C reaches the whole group; the worker decides what becomes of its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare = functools.cache(prepare)  # again only if it failed
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = codec.decode(pipe.recv_bytes())
            pipe.send_bytes(codec.encode({"begun": True}))
            reply = asyncio.run(
                _run(request, prepare, lambda p: pipe.send_bytes(codec.encode({"progress": p})))
            )
            pipe.send_bytes(codec.encode(reply))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


async def _run(
    request: dict[str, Any],
    prepare: Callable[[], None],
    note: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    definition: Definition | None = None
    try:
        prepare()
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
            step=definition.step,
            state=state_of(definition, request["carried"]),
        )
        try:
            arguments = definition.parameters.decode(codec.encode(request["input"]))
        except InvalidInput as error:
            return _failed(error, failure.INVALID_INPUT)
        if definition.context_parameter:
            arguments[definition.context_parameter] = context
        injector = Injector({})
        try:
            async with contextlib.AsyncExitStack() as stack:
                arguments |= await injector.resolve(definition.dependencies, stack, lambda: context)
                result = definition.function(**arguments)
        finally:
            await injector.close()
        return _reply(
            outcome_of(definition, result, context, request["options"], request["most_bytes"])
        )
    except Snooze as snooze:
        return _snoozed(snooze)
    except BaseException as error:
        again = not isinstance(error, Fatal) and (
            definition is None or definition.retry.covers(error)
        )
        return {"error": failure.envelope_of(error), "again": again}


def _reply(outcome: Returned | Moved | Broke) -> dict[str, Any]:
    if isinstance(outcome, Broke):
        return {"error": outcome.error, "again": outcome.again}
    reply: dict[str, Any] = {"children": outcome.children}
    if outcome.carried is not None:
        reply["carried"] = codec.Raw(outcome.carried)
    if isinstance(outcome, Moved):
        # The input travels by itself: it is JSON already.
        move = outcome.advance
        reply["input"] = codec.Raw(move.input)
        reply["advance"] = {
            "step": move.step,
            "delay": move.delay,
            "queue": move.queue,
            "priority": move.priority,
            "max_attempts": move.max_attempts,
            "key": move.key,
            "key_limit": move.key_limit,
            "ordered": move.ordered,
        }
    else:
        reply["result"] = codec.Raw(outcome.result)
    return reply


def _snoozed(snooze: Snooze) -> dict[str, Any]:
    try:
        return {"snooze": seconds(snooze.delay, name="Snooze")}
    except Exception as error:
        return _failed(error)


def _failed(error: BaseException, kind: str | None = None) -> dict[str, Any]:
    return {"error": failure.envelope_of(error, kind), "again": False}


def _find(module: str, name: str) -> Definition:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    definition: Definition = found.definition
    return definition
