"""`Task`: a function that can be enqueued, and the options of one call to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from uuid import UUID

from headway.core import codec
from headway.core.config import check_name, check_priority
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.duration import Duration, optional_seconds, seconds
from headway.core.ids import new_id
from headway.core.retry import Retry
from headway.errors import ConfigError, InvalidInput
from headway.handle import Job
from headway.session import Session
from headway.store import jobs
from headway.store.jobs import NewJob
from headway.store.statement import Statement

P = ParamSpec("P")
R = TypeVar("R")

_MOST_ROWS = 5_000
_MOST_BYTES = 8 * 1024 * 1024
"""One statement's worth of an enqueue_many; a larger call is several, in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `using` can set for a call; whatever is left open is the task's."""

    delay: Duration | None = None
    at: datetime | None = None
    priority: int | None = None
    queue: str | None = None
    timeout: Duration | None = None
    retry: Retry | None = None
    headers: Mapping[str, str] | None = None
    ttl: Duration | None = None
    conn: Any = None

    def __post_init__(self) -> None:
        optional_seconds(self.delay, name="delay")
        optional_seconds(self.timeout, name="timeout")
        optional_seconds(self.ttl, name="ttl")
        if self.delay is not None and self.at is not None:
            raise ConfigError("delay and at both say when; give one of them")
        if self.at is not None and not isinstance(self.at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"at={self.at!r} is not a datetime")
        if self.at is not None and self.at.utcoffset() is None:
            raise ConfigError(f"at={self.at!r} has no time zone; give it one, e.g. tzinfo=UTC")
        if self.priority is not None:
            check_priority(self.priority)
        if self.queue is not None:
            check_name(self.queue, "queue")
        for name, value in (self.headers or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInput(f"header {name!r} must be text with a text value")
        if self.headers:
            codec.encode(dict(self.headers))

    def stored(self) -> dict[str, Any] | None:
        """What the row keeps for the worker; nothing if the task's own options hold."""
        kept: dict[str, Any] = {}
        if self.timeout is not None:
            kept["timeout"] = seconds(self.timeout)
        if self.retry is not None:
            kept["retry"] = self.retry.stored()
        return kept or None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a task, ready to be enqueued with others; made by `task.call(...)`."""

    job: NewJob


class Bound(Generic[P, R]):
    """A task with the options of a call: what `using` returns, and what `Task` is itself."""

    def __init__(self, session: Session, definition: Definition, options: Options) -> None:
        self.definition = definition
        self._session = session
        self._options = options

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Makes a job of this call. It exists once this returns; with `conn`, once that commits."""
        call = self.call(*args, **kwargs)
        await self._send([call.job])
        return self._job(call)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """As `enqueue`."""
        call = self.call(*args, **kwargs)
        self._send_sync([call.job])
        return self._job(call)

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any] | Call]) -> list[Job[R]]:
        """Makes a job of each call, all or none, and returns their handles in order.

        An item is a mapping of arguments, or `task.call(...)` where it has options of its own.
        """
        made = self._calls(calls)
        await self._send([call.job for call in made])
        return [self._job(call) for call in made]

    def enqueue_many_sync(self, calls: Iterable[Mapping[str, Any] | Call]) -> list[Job[R]]:
        """As `enqueue_many`."""
        made = self._calls(calls)
        self._send_sync([call.job for call in made])
        return [self._job(call) for call in made]

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """This call with these options, checked, for `enqueue_many`."""
        return self._call(args, kwargs)

    def _calls(self, calls: Iterable[Mapping[str, Any] | Call]) -> list[Call]:
        made: list[Call] = []
        for position, call in enumerate(calls):
            if isinstance(call, Call):
                if call.job.task != self.definition.name:
                    raise InvalidInput(
                        f"item {position} is a call of {call.job.task}, not of {self.definition.name}"
                    )
                made.append(call)
                continue
            if not isinstance(call, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInput(
                    f"item {position} is {call!r}; give a mapping of arguments or task.call(...)"
                )
            try:
                made.append(self._call((), dict(call)))
            except InvalidInput as error:
                raise type(error)(f"item {position}: {error}") from error
        return made

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        definition, options = self.definition, self._options
        encoded = definition.encode_call(args, kwargs)
        codec.check_size(
            encoded, self._session.max_payload_bytes, f"the input of {definition.name}"
        )
        ttl = definition.ttl if options.ttl is None else options.ttl
        return Call(
            NewJob(
                id=str(new_id()),
                queue=options.queue or definition.queue,
                task=definition.name,
                priority=definition.priority if options.priority is None else options.priority,
                max_attempts=(options.retry or definition.retry).max_attempts,
                input=codec.Raw(encoded),
                at=options.at,
                delay=optional_seconds(options.delay),
                ttl=optional_seconds(ttl),
                options=options.stored(),
                headers=dict(options.headers) if options.headers else None,
            )
        )

    async def _send(self, made: list[NewJob]) -> None:
        if made:
            client = await self._session.ready_client()
            await client.run_all(
                self._statements(made), on_repeat=[_withdraw(made)], conn=self._options.conn
            )

    def _send_sync(self, made: list[NewJob]) -> None:
        if made:
            self._session.client.run_all_sync(
                self._statements(made), on_repeat=[_withdraw(made)], conn=self._options.conn
            )

    def _statements(self, made: list[NewJob]) -> list[Statement[int]]:
        target, now = self._session.target, self._session.clock.now()
        return [jobs.enqueue(target, chunk, now) for chunk in _chunks(made)]

    def _job(self, call: Call) -> Job[R]:
        return Job(self._session, UUID(call.job.id), self.definition)


class Task(Bound[P, R]):
    """A function that can be enqueued. Made by `@hw.task`.

    >>> job = add.using(delay="10m", priority=5).enqueue_sync(1, 2)     # doctest: +SKIP
    """

    def __init__(self, session: Session, definition: Definition) -> None:
        super().__init__(session, definition, Options())
        self.__doc__ = definition.function.__doc__
        self.__name__ = definition.function.__name__
        self.__module__ = definition.function.__module__
        self.__qualname__ = definition.function.__qualname__

    def __repr__(self) -> str:
        return f"<Task {self.definition.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function itself, here and now, with everything it takes; enqueues nothing."""
        return self.definition.function(*args, **kwargs)

    @property
    def name(self) -> str:
        return self.definition.name

    def using(
        self,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        timeout: Duration | None = None,
        retry: Retry | None = None,
        headers: Mapping[str, str] | None = None,
        ttl: Duration | None = None,
        conn: Any = None,
    ) -> Bound[P, R]:
        """This task with options for a call; those left out are the task's.

        `delay` or `at` say when it may run, `ttl` how long it may wait, `conn` (a psycopg
        connection) in whose transaction it is made.
        """
        options = Options(
            delay=delay,
            at=at,
            priority=priority,
            queue=queue,
            timeout=timeout,
            retry=retry,
            headers=headers,
            ttl=ttl,
            conn=conn,
        )
        return Bound(self._session, self.definition, options)


class Unnamed:
    """For type checkers: no parameter is annotated with it, so only `Any` and `object` accept it."""


class TaskDecorator(Protocol):
    """What `@hw.task(...)` does to a function: async or plain, with a Context first or without.

    A first parameter that accepts anything also accepts a Context, and is none: such a function comes
    first, and its calls are left unchecked rather than refused.
    """

    @overload
    def __call__(
        self, function: Callable[Concatenate[Unnamed, ...], Awaitable[R]], /
    ) -> Task[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Unnamed, ...], R], /) -> Task[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Awaitable[R]], /
    ) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[..., Any]: ...


def _chunks(made: list[NewJob]) -> Iterator[list[NewJob]]:
    chunk, size = list[NewJob](), 0
    for job in made:
        bytes_of = len(memoryview(job.input))
        if chunk and (len(chunk) >= _MOST_ROWS or size + bytes_of > _MOST_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(job)
        size += bytes_of
    if chunk:
        yield chunk


def _withdraw(made: list[NewJob]) -> Statement[int]:
    return jobs.withdraw([job.id for job in made])
