"""Runs plain functions, each in a thread, and stops them.

A thread cannot be killed. First it is asked to stop (`ctx.cancelled`). After its grace an exception is
raised in it, which ends any code that is not inside a call into C. A thread that still does not end is
abandoned: its job is settled, but its slot stays taken until the thread ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headway.errors import Interrupted

T = TypeVar("T")

_INTERRUPT_TIMEOUT = 1.0


class Abandoned(Exception):
    """The thread did not stop in time. `done` is the future of its end."""

    def __init__(self, done: asyncio.Future[Any]) -> None:
        super().__init__("the thread did not stop")
        self.done = done


def carried(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function in a thread. Raise only exceptions that a future can carry.

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
        self._asked: set[asyncio.Event] = set()

    async def call(
        self,
        function: Callable[..., Any],
        arguments: dict[str, Any],
        grace: Callable[[], float] = lambda: 0.0,
    ) -> Any:
        """Return the function's value. If cancelled, stop the thread first.

        `grace` returns the seconds that the thread has to end by itself. Raise `Abandoned` if it does not
        stop.
        """
        call = _ThreadCall(function, arguments)
        submitted = self._pool.submit(contextvars.copy_context().run, call.run)
        running = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if submitted.cancel():
                raise  # no thread had started it
            if not await self._ended_by_itself(running, grace()):
                call.interrupt()
                await asyncio.wait([running], timeout=_INTERRUPT_TIMEOUT)
            if not running.done():
                raise Abandoned(running) from None
            running.exception()  # it was stopped, so the exception that ended it is not an outcome
            raise

    def hurry(self) -> None:
        """Interrupt the functions that are in their grace now: no time is left for it."""
        for asked in self._asked:
            asked.set()

    async def _ended_by_itself(self, running: asyncio.Future[Any], grace: float) -> bool:
        if grace <= 0:
            return False
        hurried = asyncio.Event()
        self._asked.add(hurried)
        running.add_done_callback(lambda _: hurried.set())
        try:
            async with asyncio.timeout(grace):
                await hurried.wait()
        except TimeoutError:
            pass
        finally:
            self._asked.discard(hurried)
        return running.done()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _ThreadCall:
    """One call, which may be interrupted while the function runs and never after that."""

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
            # A future does not carry our BaseException out of this thread.
            raise RuntimeError("interrupted") from None

    def interrupt(self) -> None:
        with self._lock:
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(Interrupted)
                )
