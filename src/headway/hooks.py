"""Where an app registers its hooks: the types of `hw.middleware`, and `hw.on`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from headway.core.hooks import (
    EnqueueMiddleware,
    Hooks,
    JobEvent,
    JobEventName,
    Middleware,
    SyncMiddleware,
    WorkerEvent,
    WorkerEventName,
)

AnyMiddleware = TypeVar("AnyMiddleware", bound=Middleware | SyncMiddleware)
AnyEnqueueMiddleware = TypeVar("AnyEnqueueMiddleware", bound=EnqueueMiddleware)
OnJob = TypeVar("OnJob", bound=Callable[[JobEvent], object])
OnWorker = TypeVar("OnWorker", bound=Callable[[WorkerEvent], object])


class EventHooks:
    """Registers functions that workers call at events, async or plain: `hw.on("failed", notify)`.

    >>> @hw.on("failed")                                                # doctest: +SKIP
    ... async def notify(event: JobEvent) -> None:
    ...     await post(f"{event.job.task} failed")
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    @overload
    def __call__(self, event: JobEventName, function: Callable[[JobEvent], object], /) -> None: ...
    @overload
    def __call__(
        self, event: WorkerEventName, function: Callable[[WorkerEvent], object], /
    ) -> None: ...
    @overload
    def __call__(self, event: JobEventName, /) -> Callable[[OnJob], OnJob]: ...
    @overload
    def __call__(self, event: WorkerEventName, /) -> Callable[[OnWorker], OnWorker]: ...
    def __call__(self, event: str, function: Callable[..., Any] | None = None, /) -> Any:
        """Call a function at an event, once for each attempt or worker. Without one, return a decorator.

        A worker calls its functions one after another, and not in its event loop if they are plain. An
        error is logged and changes nothing.
        """

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            return self._hooks.add_event(event, function)

        if function is None:
            return add
        add(function)
        return None
