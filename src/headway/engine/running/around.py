"""Enters what an app runs around each attempt (`core/around.py`)."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TypeVar

from headway.core.around import Around

T = TypeVar("T")


@asynccontextmanager
async def entered(around: Sequence[Around]) -> AsyncGenerator[None]:
    """Enter all of them on the loop, the first one outermost."""
    async with AsyncExitStack() as stack:
        for one in around:
            await stack.enter_async_context(one.on_loop())
        yield


def surrounded(function: Callable[..., T], around: Sequence[Around]) -> Callable[..., T]:
    """Return the function with all of them around it, for a call in a thread."""
    if not around:
        return function

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> T:
        with ExitStack() as stack:
            for one in around:
                stack.enter_context(one.in_thread())
            return function(*args, **kwargs)
        raise AssertionError("an Around must not suppress exceptions")

    return call
