"""`Context`: the facts about a running job that its handler may use, and its requests to the worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ParamSpec, Protocol, TypeVar
from uuid import UUID

from headway.core.clock import wall
from headway.core.config import DEFAULT_QUEUE
from headway.core.failure import storable
from headway.core.ids import new_id
from headway.errors import ConfigError

P = ParamSpec("P")
H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)
Note = Callable[[dict[str, Any]], None]

_LONGEST_NOTE = 1_000

log = logging.getLogger("headway.job")


class CallOf(Protocol[H_co]):
    """A call that is ready to be enqueued."""

    def into(self, children: list[Any]) -> H_co: ...


class Enqueueable(Protocol[P, H_co]):
    """A task, a flow or a step, or one with the options of a call."""

    def call(self, *args: P.args, **kwargs: P.kwargs) -> CallOf[H_co]: ...


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the job to every record, in addition to the `extra` of the caller."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


@dataclass(slots=True)
class Context:
    """The job that runs. Annotate a parameter of a task with it, best the first, and it is injected.

    >>> async def resize(ctx: Context, image: str) -> None:
    ...     await ctx.progress(50, "half way")
    ...     ctx.logger.info("resized %s", image)
    """

    job_id: UUID
    task: str
    queue: str
    attempt: int
    """1 on the first try."""
    max_attempts: int
    headers: Mapping[str, str]
    deadline: datetime | None
    """When the attempt times out, by the clock of `now()`. None without a timeout."""
    _note: Note = field(repr=False)
    _stopped: bool = field(default=False, repr=False)
    step: str = ""
    """The step of a flow. Empty for a plain task."""
    state: Any = None
    """The state of a flow, if it has one. `flow.state(ctx)` returns it with its type."""
    children: list[Any] = field(default_factory=list[Any], repr=False)
    """For the worker: the jobs made by `enqueue`."""
    _conn: Any = field(default=None, repr=False)
    _now: Callable[[], datetime] = field(default=wall, repr=False)

    @classmethod
    def fake(
        cls,
        *,
        task: str = "test",
        step: str = "",
        queue: str = DEFAULT_QUEUE,
        attempt: int = 1,
        max_attempts: int = 1,
        headers: Mapping[str, str] | None = None,
        deadline: datetime | None = None,
        state: Any = None,
        conn: Any = None,
        cancelled: bool = False,
        job_id: UUID | None = None,
        on_progress: Note | None = None,
        now: datetime | None = None,
    ) -> Context:
        """Return a context for a direct call of a task, in a test.

        `ctx.conn` returns `conn`, and `ctx.now()` returns `now`. `on_progress` is called with progress.
        Jobs made by `ctx.enqueue` are in `ctx.children` only.

        >>> Context.fake(attempt=2).attempt
        2
        """
        context = cls(
            job_id=job_id or new_id(),
            task=task,
            queue=queue,
            attempt=attempt,
            max_attempts=max(max_attempts, attempt),
            headers=headers or {},
            deadline=deadline,
            _note=on_progress or (lambda _: None),
            _stopped=cancelled,
            step=step,
            state=state,
            _now=wall if now is None else lambda: now,
        )
        context.attach(conn)
        return context

    def now(self) -> datetime:
        """Return the time, in UTC: this machine's, or the test's in a test that travels in time."""
        return self._now()

    @property
    def cancelled(self) -> bool:
        """Whether this attempt must stop: it was cancelled, it timed out, or its claim was lost.

        An async handler is also cancelled. A plain function that runs for long should check this.
        """
        return self._stopped

    @property
    def logger(self) -> JobLogger:
        """A logger that adds the job's id, task, step, attempt and queue to its records."""
        extra = {
            "job_id": str(self.job_id),
            "task": self.task,
            "step": self.step,
            "attempt": self.attempt,
            "queue": self.queue,
        }
        return JobLogger(log, extra)

    @property
    def conn(self) -> Any:
        """The connection whose transaction commits together with this attempt's success.

        It is a psycopg `AsyncConnection` in an async handler and a `Connection` in a plain one. Raise
        ConfigError without `transaction=True`.
        """
        if self._conn is None:
            raise ConfigError(
                f"{self.task} has no transaction of its own; define it with transaction=True"
            )
        return self._conn

    async def enqueue(self, task: Enqueueable[P, H], *args: P.args, **kwargs: P.kwargs) -> H:
        """Enqueue a job that exists if and only if this attempt succeeds. Return its handle, a `Job`.

        `task` may have options: `await ctx.enqueue(welcome.using(delay="10m"), user_id=1)`. If another
        job holds its unique key when the attempt succeeds, no job of this handle exists.
        """
        return self.enqueue_sync(task, *args, **kwargs)

    def enqueue_sync(self, task: Enqueueable[P, H], *args: P.args, **kwargs: P.kwargs) -> H:
        """Sync version of `enqueue`, for plain functions."""
        return task.call(*args, **kwargs).into(self.children)

    async def progress(self, percent: float, message: str = "") -> None:
        """Report how far the job is. `status()`, the command line and the dashboard show it."""
        self.progress_sync(percent, message)

    def progress_sync(self, percent: float, message: str = "") -> None:
        """As `progress`, for plain functions."""
        share = round(min(max(float(percent), 0.0), 100.0), 2)
        self._note({"percent": share, "message": storable(str(message), _LONGEST_NOTE)})

    def attach(self, conn: Any) -> None:
        """For the worker: set the connection that `conn` returns."""
        self._conn = conn

    def stop(self) -> None:
        """For the worker: make `cancelled` true."""
        self._stopped = True
