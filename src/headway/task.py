"""`Task`: a function that can be enqueued."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload
from uuid import UUID

from headway import direct
from headway.calls import Call, CallOptions, Options, chunks, new_job
from headway.core.context import Context
from headway.core.definition import Definition
from headway.errors import InvalidInput
from headway.handle import Job
from headway.session import Session
from headway.store import jobs
from headway.store.documents import NewJob
from headway.store.identity import Identity
from headway.store.statement import Statement

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Bound(Generic[P, R]):
    """A task with the options of a call: what `using` returns, and what `Task` is itself."""

    def __init__(self, session: Session, definition: Definition, options: Options) -> None:
        self.definition = definition
        self._session = session
        self._options = options

    @property
    def options(self) -> Options:
        """The options of the call."""
        return self._options

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Makes a job of this call. It exists once this returns; with `conn`, once that commits."""
        return (await self._send([self.call(*args, **kwargs)]))[0]

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """As `enqueue`."""
        return self._send_sync([self.call(*args, **kwargs)])[0]

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any] | Call]) -> list[Job[R]]:
        """Makes a job of each call, all or none, and returns their handles in order.

        An item is a mapping of arguments, or `task.call(...)` where it has options of its own.
        """
        return await self._send(self._calls(calls))

    def enqueue_many_sync(self, calls: Iterable[Mapping[str, Any] | Call]) -> list[Job[R]]:
        """As `enqueue_many`."""
        return self._send_sync(self._calls(calls))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """This call with these options, checked, for `enqueue_many` and `ctx.enqueue`."""
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

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        most_bytes = self._session.max_payload_bytes
        return Call(new_job(self.definition, self._options, args, kwargs, most_bytes))

    async def _send(self, calls: Sequence[Call]) -> list[Job[R]]:
        made = [call.job for call in calls]
        if not made:
            return []
        client, conn = await self._session.ready_client(), self._options.conn
        taken: list[dict[str, str]]
        if conn is not None:
            taken = await client.run_in(conn, lambda place: self._statements_in(made, place))
        else:
            taken = await client.run_all(self._statements(made), on_repeat=[_withdraw(made)])
        return self._jobs(made, taken)

    def _send_sync(self, calls: Sequence[Call]) -> list[Job[R]]:
        made = [call.job for call in calls]
        if not made:
            return []
        client, conn = self._session.client, self._options.conn
        taken: list[dict[str, str]]
        if conn is not None:
            taken = client.run_in_sync(conn, lambda place: self._statements_in(made, place))
        else:
            taken = client.run_all_sync(self._statements(made), on_repeat=[_withdraw(made)])
        return self._jobs(made, taken)

    def _statements(self, made: list[NewJob]) -> list[Statement[dict[str, str]]]:
        target, now = self._session.target, self._session.clock.now()
        return [jobs.enqueue(target, chunk, now) for chunk in chunks(made)]

    def _statements_in(self, made: list[NewJob], place: Identity) -> list[Statement[Any]]:
        """The same on a connection of the caller's, which must lead to `place`."""
        target, now = self._session.target, self._session.clock.now()
        return [jobs.enqueue_in(target, chunk, now, place) for chunk in chunks(made)]

    def _jobs(self, made: list[NewJob], taken: list[dict[str, str]]) -> list[Job[R]]:
        """Handles in the order of the calls; of one whose unique key was taken, on who has it."""
        holders = {asked: holder for answer in taken for asked, holder in answer.items()}
        typed = None if self.definition.flow else self.definition
        return [
            Job(
                self._session,
                UUID(holders.get(job.id, job.id)),
                typed,
                made=job.id not in holders,
            )
            for job in made
        ]


class Wrapped(Bound[P, R]):
    """A function that was made a task or a step: it looks like the function, and can be called."""

    def __init__(self, session: Session, definition: Definition) -> None:
        super().__init__(session, definition, Options())
        self.__doc__ = definition.function.__doc__
        self.__name__ = definition.function.__name__
        self.__module__ = definition.function.__module__
        self.__qualname__ = definition.function.__qualname__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.definition.handler}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function itself, here and now; enqueues nothing. What `Depends` names is made for
        the call, unless it is given; a `Context` comes from `Context.for_test(...)`."""
        return direct.call(self.definition, self._session.overrides, args, kwargs)

    def using(self, **options: Unpack[CallOptions]) -> Bound[P, R]:
        """This task with options for a call; those left out are the task's.

        `delay` or `at` say when it may run, `ttl` how long it may wait, `unique` and
        `concurrency_key` what it must not meet, `conn` in whose transaction it is made (an open
        connection of psycopg, asyncpg, SQLAlchemy or Django).
        """
        return Bound(self._session, self.definition, Options.of(options))


class Task(Wrapped[P, R]):
    """A function that can be enqueued. Made by `@hw.task`.

    >>> job = add.using(delay="10m", priority=5).enqueue_sync(1, 2)     # doctest: +SKIP
    """

    @property
    def name(self) -> str:
        return self.definition.name

    def definitions(self) -> list[Definition]:
        """For workers: what this is made of."""
        return [self.definition]


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


Answers = Awaitable[Sequence[T]] | Sequence[T]
"""What a handler of batches returns: an answer for each job."""


class BatchDecorator(Protocol):
    """What `@hw.task(batch=...)` does to a function of a list: its task takes one item of it.

    An answer may be an exception; it is no result. (Both kinds are named: pyright takes out of a union
    only what it finds there by name.)
    """

    @overload
    def __call__(
        self, function: Callable[[list[Context], list[T]], Awaitable[None] | None], /
    ) -> Task[[T], None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Awaitable[None] | None], /
    ) -> Task[[T], None]: ...
    @overload
    def __call__(
        self,
        function: Callable[[list[Context], list[T]], Answers[R | Exception | BaseException]],
        /,
    ) -> Task[[T], R]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Answers[R | Exception | BaseException]], /
    ) -> Task[[T], R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[..., Any]: ...


def _withdraw(made: list[NewJob]) -> Statement[int]:
    return jobs.withdraw([job.id for job in made])
