"""Calls middleware around an attempt, and around a plain function.

Middleware sees the value or the exception of the handler, and may replace both. It cannot change what the
handler tells the worker: these exceptions count whatever the middleware does.

- `Snooze` and `Fatal`.
- The cancellation of an attempt that must stop: a timeout, a request, a lost claim, a shutdown.
- The end of an attempt that the worker itself decided (`Ended`, `Abandoned`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from headway.core.current import JobInfo
from headway.core.hooks import CallNext, Middleware, SyncCallNext, SyncMiddleware
from headway.engine.running.job import Ended
from headway.engine.running.threads import Abandoned
from headway.errors import ConfigError, Fatal, Interrupted, Snooze

log = logging.getLogger("headway.worker")

_TWICE = (
    "call_next was called twice; an attempt runs its handler once, so raise to have another one"
)


class _Innermost:
    """The call of the handler. It remembers how that ended."""

    def __init__(self) -> None:
        self._called = False
        self.ended = False
        """The handler returned, or raised an error of its own."""
        self.decisive: BaseException | None = None
        """An exception that middleware cannot replace."""

    def begin(self) -> None:
        if self._called:
            raise ConfigError(_TWICE)
        self._called = True

    def check(self, raised: BaseException | None, job: JobInfo) -> None:
        """Raise the decisive exception, if there is one. `raised` ended the middleware, or None did."""
        if self.decisive is None or self.decisive is raised:
            return
        if raised is not None and not isinstance(raised, asyncio.CancelledError):
            log.warning(
                "middleware of %s %s raised an error after %s, which counts",
                job.handler, job.job_id, type(self.decisive).__name__, exc_info=raised,
            )  # fmt: skip
        raise self.decisive


async def around(
    middleware: Sequence[Middleware],
    job: JobInfo,
    call: Callable[[], Awaitable[Any]],
    is_stopped: Callable[[], bool],
) -> Any:
    """Return the value of an attempt: that of the handler, as the middleware returns it.

    `is_stopped` returns whether the attempt must stop.
    """
    innermost = _Innermost()

    async def handler() -> Any:
        innermost.begin()
        try:
            value = await call()
        except Abandoned as error:
            innermost.decisive = error
            raise asyncio.CancelledError from None
        except (Snooze, Fatal, Ended) as error:
            innermost.decisive = error
            raise
        except asyncio.CancelledError as error:
            if is_stopped():
                innermost.decisive = error
            raise
        except BaseException:
            innermost.ended = True
            raise
        innermost.ended = True
        return value

    call_next: CallNext = handler
    for function in reversed(middleware):
        call_next = partial(function, job, call_next)
    try:
        value = await call_next()
    except BaseException as error:
        innermost.check(error, job)
        if is_stopped() and not innermost.ended and not isinstance(error, asyncio.CancelledError):
            raise asyncio.CancelledError from error
        raise
    innermost.check(None, job)
    if is_stopped() and not innermost.ended:
        raise asyncio.CancelledError  # the middleware was cancelled and went on
    return value


def around_plain(
    middleware: Sequence[SyncMiddleware], job: JobInfo, function: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a plain function with its middleware around it."""

    def called(**arguments: Any) -> Any:
        innermost = _Innermost()

        def handler() -> Any:
            innermost.begin()
            try:
                return function(**arguments)
            except (Snooze, Fatal, Interrupted) as error:
                innermost.decisive = error
                raise

        call_next: SyncCallNext = handler
        for each in reversed(middleware):
            call_next = partial(each, job, call_next)
        try:
            value = call_next()
        except BaseException as error:
            innermost.check(error, job)
            raise
        innermost.check(None, job)
        return value

    return called
