"""Handlers as a test runs them: their exceptions are kept, and they may crash their worker."""

from __future__ import annotations

import asyncio
import copy
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from headway.core.definition import Definition
from headway.core.failure import Envelope, envelope_of
from headway.engine.worker import Worker
from headway.errors import ConfigError

When = Literal["before", "after"]

_CRASHES_WITHIN = 10.0


@dataclass(slots=True, eq=False)
class CrashPoint:
    """Where a worker is to crash, once: before a handler runs, or after it, before its end is written."""

    name: str
    when: When
    happened: bool = False

    def is_at(self, definition: Definition) -> bool:
        """Return whether this names the handler: its task, its step, or `flow/step`."""
        return self.name in (definition.handler, definition.step, definition.name)


class RiggedHandlers:
    """The handlers of one test."""

    def __init__(self) -> None:
        self.crash_points: list[CrashPoint] = []
        self._raised: list[tuple[str, BaseException]] = []
        self._rigged: dict[int, tuple[Definition, Definition]] = {}
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.crashed = False
        """Whether the worker that runs has crashed."""

    def begin(self, worker: Worker) -> None:
        """This worker runs the handlers now, on the running event loop."""
        self._worker, self._loop, self.crashed = worker, asyncio.get_running_loop(), False

    def rig(self, definition: Definition) -> Definition:
        """Return a definition with a handler that crashes when it is asked to. A child runs its own."""
        if definition.executor == "process":
            return definition
        known = self._rigged.get(id(definition))
        if known is None or known[0] is not definition:
            # A copy keeps what was read from the signature.
            _ = definition.parameters, definition.injected, definition.result
            rigged = copy.copy(definition)
            object.__setattr__(rigged, "function", self._wrapped(definition))
            known = self._rigged[id(definition)] = definition, rigged
        return known[1]

    def crash_at(self, name: str, when: When, known: list[Definition]) -> CrashPoint:
        """Crash at a handler, once. Raise ConfigError if there is none of this name."""
        if when not in ("before", "after"):
            raise ConfigError(f'when={when!r} must be "before" or "after"')
        point = CrashPoint(name, when)
        found = [definition for definition in known if point.is_at(definition)]
        if not found:
            names = ", ".join(sorted({definition.handler for definition in known}))
            raise ConfigError(f"no task or step is called {name!r}; there are {names or 'none'}")
        if found[0].executor == "process":
            raise ConfigError(f"{name} runs in a process of its own; kill that process instead")
        self.crash_points.append(point)
        return point

    def raised(self, handler: str, error: Envelope) -> BaseException | None:
        """Return the exception that a stored error was made from, if it was raised here."""
        for name, raised in self._raised:
            if name == handler:
                made = envelope_of(raised)
                if (made["type"], made["message"]) == (error.get("type"), error.get("message")):
                    return raised
        return None

    def _wrapped(self, definition: Definition) -> Callable[..., Any]:
        function = definition.function
        if definition.executor == "async":

            @functools.wraps(function)
            async def on_loop(*args: Any, **kwargs: Any) -> Any:
                if self._takes(definition, "before"):
                    self._crash()
                    raise asyncio.CancelledError
                try:
                    value = await function(*args, **kwargs)
                except Exception as error:
                    self._raised.append((definition.handler, error))
                    raise
                if self._takes(definition, "after"):
                    self._crash()
                    raise asyncio.CancelledError
                return value

            return on_loop

        @functools.wraps(function)
        def in_thread(*args: Any, **kwargs: Any) -> Any:
            if self._takes(definition, "before"):
                self._crash_from_thread()
                raise asyncio.CancelledError
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                self._raised.append((definition.handler, error))
                raise
            if self._takes(definition, "after"):
                self._crash_from_thread()
                raise asyncio.CancelledError
            return value

        return in_thread

    def _takes(self, definition: Definition, when: When) -> bool:
        for point in self.crash_points:
            if point.when == when and not point.happened and point.is_at(definition):
                point.happened = True
                return True
        return False

    def _crash(self) -> None:
        assert self._worker is not None, "a handler runs in a worker"
        self.crashed = True
        self._worker.crash()

    def _crash_from_thread(self) -> None:
        assert self._loop is not None, "a handler runs in a worker"
        done = threading.Event()

        def crash() -> None:
            self._crash()
            done.set()

        self._loop.call_soon_threadsafe(crash)
        done.wait(_CRASHES_WITHIN)
