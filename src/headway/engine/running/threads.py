"""Plain functions, each in a thread, and what can be done to stop one.

A thread cannot be killed. It is asked (`ctx.cancelled`), then an exception is raised inside it, which
ends any code that is not stuck in a call into C. One that does not end is abandoned: its job is
settled, its slot stays taken until the thread is really done.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 1.0


class Interrupted(BaseException):
    """Raised inside a handler's thread to stop it; not an Exception, so that it is not swallowed."""


class Abandoned(Exception):
    """The thread did not stop in time; `done` is when it does."""

    def __init__(self, done: asyncio.Future[Any]) -> None:
        super().__init__("the thread did not stop")
        self.done = done


def carried(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Calls a function in a thread, so that whatever it raises can be awaited elsewhere.

    A future cannot carry StopIteration, and GeneratorExit would close the coroutine that awaits it.
    """
    try:
        return function(*args, **kwargs)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"{type(error).__name__} was raised") from error


class Threads:
    """Runs plain functions off the loop."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="headway-job")

    async def call(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """The function's value. When cancelled, stops the thread first; `Abandoned` if it would not."""
        call = _Call(function, arguments)
        submitted = self._pool.submit(contextvars.copy_context().run, call.run)
        running = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if submitted.cancel():
                raise  # no thread had taken it up
            call.interrupt()
            await asyncio.wait([running], timeout=_PATIENCE)
            if not running.done():
                raise Abandoned(running) from None
            running.exception()  # it was stopped; what it raised on its way out is not an outcome
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Call:
    """One call, which may be interrupted while the function runs and never after."""

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        self._function = function
        self._arguments = arguments
        self._lock = threading.Lock()
        self._thread: int | None = None

    def run(self) -> Any:
        try:
            with self._lock:
                self._thread = threading.get_ident()
            try:
                return carried(self._function, **self._arguments)
            finally:
                with self._lock:
                    self._thread = None
        except Interrupted:
            # A future does not take a BaseException of ours any further than this thread.
            raise RuntimeError("interrupted") from None

    def interrupt(self) -> None:
        with self._lock:
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(Interrupted)
                )
