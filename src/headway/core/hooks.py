"""The functions that an app calls around attempts and enqueues, and at events. Pure.

Definitions refer to the hooks of their app, so that a child process that imports the app has them too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar, get_args
from uuid import UUID

from headway.core import codec
from headway.core.current import JobInfo
from headway.core.failure import Envelope
from headway.errors import ConfigError

CallNext = Callable[[], Awaitable[Any]]
"""Calls the next middleware, or the handler. Returns its value or raises its exception."""
SyncCallNext = Callable[[], Any]
"""The same for plain middleware."""

Middleware = Callable[[JobInfo, CallNext], Awaitable[Any]]
SyncMiddleware = Callable[[JobInfo, SyncCallNext], Any]

JobEventName = Literal[
    "started", "succeeded", "advanced", "retried", "snoozed", "failed", "cancelled"
]
WorkerEventName = Literal["worker_started", "worker_stopped"]
EVENTS: tuple[str, ...] = (*get_args(JobEventName), *get_args(WorkerEventName))

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """An attempt that began, or whose end this worker has written."""

    name: JobEventName
    job: JobInfo
    at: datetime
    """By this machine's clock."""
    error: Envelope | None = None
    """`type`, `message`, `traceback` and `chain`, if the attempt failed or the job was cancelled."""
    exception: BaseException | None = None
    """The exception itself. None if it was raised in another process."""
    delay: float | None = None
    """Seconds until the next attempt, if the job was retried or snoozed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent:
    """A worker that began to serve, or that has drained."""

    name: WorkerEventName
    worker_id: int
    queues: Sequence[str]
    slots: int
    at: datetime
    """By this machine's clock."""
    settled: Mapping[str, int]
    """Its verdicts by kind, such as `succeed` and `fail`."""


@dataclass(slots=True, kw_only=True)
class NewJobInfo:
    """A job that is about to be enqueued. Middleware may change its headers."""

    job_id: UUID
    task: str
    step: str
    """The first step of a flow. Empty for a plain task."""
    queue: str | None
    """None if the job is enqueued by its name and goes to the queue of its task."""
    headers: dict[str, str]
    _input: bytes = field(repr=False)

    @property
    def input(self) -> Any:
        """The arguments by name, as they are stored."""
        return codec.decode(self._input)


EnqueueMiddleware = Callable[[Sequence[NewJobInfo]], Iterator[None]]
OnEvent = Callable[[Any], Any]


class Hooks:
    """The hooks of one app. The first function of each kind is the outermost, or is called first."""

    def __init__(self) -> None:
        self.attempt: tuple[Middleware, ...] = ()
        """Around each attempt."""
        self.plain: tuple[SyncMiddleware, ...] = ()
        """Around each call of a plain function, where that runs."""
        self.enqueue: tuple[EnqueueMiddleware, ...] = ()
        """Around each enqueue."""
        self.events: dict[str, tuple[OnEvent, ...]] = {}

    def add_middleware(self, function: F) -> F:
        """Add middleware around attempts, or around plain functions if it is one. Return it."""
        _check_callable(function, "middleware")
        if is_async(function):
            self.attempt = (*self.attempt, function)
        else:
            self.plain = (*self.plain, function)
        return function

    def add_enqueue_middleware(self, function: F) -> F:
        """Add middleware around enqueues. Return it. Raise ConfigError if it is not a generator."""
        _check_callable(function, "enqueue middleware")
        if not inspect.isgeneratorfunction(function):
            raise ConfigError(
                f"enqueue middleware {_name(function)} must be a plain function with one yield, "
                "where the jobs are enqueued"
            )
        self.enqueue = (*self.enqueue, function)
        return function

    def add_event(self, event: str, function: F) -> F:
        """Call a function at an event. Return it. Raise ConfigError for an unknown event."""
        if event not in EVENTS:
            raise ConfigError(f"there is no event {event!r}; the events are {', '.join(EVENTS)}")
        _check_callable(function, "an event hook")
        self.events[event] = (*self.events.get(event, ()), function)
        return function


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether calling it makes a coroutine."""
    called = getattr(type(function), "__call__", None)  # noqa: B004 - the method, for its kind
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _check_callable(function: object, what: str) -> None:
    if not callable(function):
        raise ConfigError(f"{what} is a function, not {function!r}")


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
