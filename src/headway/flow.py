"""`Flow`: a task made of steps, each of which says where to go next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import pairwise
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    overload,
)

from headway._api.call import Call
from headway._api.new_job import CallOptions, Options
from headway._api.options import (
    FlowOptions,
    StepOptions,
    check_options,
    define_step,
    endings,
    former_names,
)
from headway._api.session import Session
from headway.core.codec import Shape
from headway.core.config import Retention
from headway.core.context import Context
from headway.core.definition import Definition, Steps
from headway.core.duration import Duration, seconds
from headway.core.flow import Next
from headway.core.former import of_flow
from headway.core.keys import as_key
from headway.core.names import check_name
from headway.core.retry import as_retry
from headway.errors import ConfigError
from headway.job import Job
from headway.task import BoundTask, Unnamed, Wrapped

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
V_contra = TypeVar("V_contra", contravariant=True)
W_co = TypeVar("W_co", covariant=True)


class Step(Wrapped[P, Any], Generic[P, R]):
    """One step of a flow. Made by `@flow.step`.

    A step that returns `other.next(...)` continues there. Any other value ends the flow as its result.
    """

    @property
    def name(self) -> str:
        return self.definition.step

    def next(self, *args: P.args, **kwargs: P.kwargs) -> Next:
        """Return a move to this step with this input, now or after the delay of the step."""
        return Next(self.definition, self.definition.bind(args, kwargs))

    def after(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Next:
        """Return a move to this step, not before `delay` from now. No worker waits for it."""
        wait = seconds(delay, name="delay")
        return Next(self.definition, self.definition.bind(args, kwargs), wait)

    if TYPE_CHECKING:

        def takes(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """For type checkers: what this step takes and returns in a chain."""
            ...


class _Returns(Protocol[W_co]):
    """A step, by what it returns."""

    @property
    def definition(self) -> Definition: ...
    def takes(self, *args: Any, **kwargs: Any) -> W_co: ...


class _Takes(Protocol[V_contra, W_co]):
    """A step that takes one value."""

    @property
    def definition(self) -> Definition: ...
    def takes(self, value: V_contra, /) -> W_co: ...


class Flow(Generic[S]):
    """A state machine of steps under one name. Made by `hw.flow`.

    >>> receipts = hw.flow("order-receipt", queue="orders")             # doctest: +SKIP
    >>> @receipts.step                                                  # doctest: +SKIP
    ... async def generate(order_id: int):
    ...     return email.next(receipt_key=f"receipts/{order_id}.pdf")
    >>> @receipts.step                                                  # doctest: +SKIP
    ... async def email(receipt_key: str):
    ...     return {"sent": receipt_key}
    >>> job = await receipts.enqueue(order_id=42)                       # doctest: +SKIP
    """

    def __init__(
        self,
        session: Session,
        name: str,
        state: type[S] | None,
        options: FlowOptions,
        retention: Callable[[], Retention],
    ) -> None:
        self.name = check_name(name, "flow name")
        if "/" in name:
            raise ConfigError(
                f"flow name {name!r} must not contain /, which separates flow and step"
            )
        check_options(FlowOptions, options, f"flow {name}")
        endings(options, retention)
        as_retry(options.get("retry"))
        self._session = session
        self._options = options
        self._retention = retention
        self._steps = Steps(name)
        self._steps.former_names = former_names(options.get("former_names"))
        self._steps.key = as_key(options.get("concurrency_key"))
        if state is not None:
            self._steps.state, self._steps.initial = _shape(name, state), state

    def __repr__(self) -> str:
        return f"<Flow {self.name}>"

    @property
    def former_names(self) -> tuple[str, ...]:
        """Earlier names of the flow."""
        return self._steps.former_names

    def definitions(self) -> list[Definition]:
        """For workers: the definitions of its steps, also under earlier names."""
        self._steps.first()
        return of_flow(list(self._steps.steps.values()))

    # The same overloads as TaskDecorator's, for the reasons given there.
    @overload
    def step(
        self, function: Callable[Concatenate[Unnamed, ...], Awaitable[R]], /
    ) -> Step[..., R]: ...
    @overload
    def step(self, function: Callable[Concatenate[Unnamed, ...], R], /) -> Step[..., R]: ...
    @overload
    def step(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def step(self, function: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def step(self, function: Callable[Concatenate[Context, P], R], /) -> Step[P, R]: ...
    @overload
    def step(self, function: Callable[P, R], /) -> Step[P, R]: ...
    @overload
    def step(self, **options: Unpack[StepOptions]) -> StepDecorator: ...
    def step(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Make a function a step of this flow, with options or without.

        - `name`: another name than that of the function.
        - `queue`, `priority` (higher runs first), `timeout` of an attempt, `retry` (a `Retry`, or a
          number of attempts), `delay` before the step runs.
        - `executor`: "async", "thread" or "process". `stop_grace`: how long a plain function may take
          to stop. `slots`: how many run at once in one worker.
        - `transaction`: run in a transaction that commits with the success of the step.
        - `concurrency_key`, `limit`: how many run at once, and how many start in a time, fleet-wide.
        - `aliases`, `former_names`: earlier names of parameters and of the step.

        Options that are left out are those of the call, else those of the flow.
        """

        def define(function: Callable[..., Any]) -> Step[..., Any]:
            definition = define_step(
                self._steps,
                self._options,
                function,
                options,
                self._retention,
                self._session.hooks,
            )
            self._steps.add(definition)
            return Step[..., Any](self._session, definition)

        return define if function is None else define(function)

    @overload
    def chain(self, a: _Returns[A | Next], b: _Takes[A, B | Next], /) -> None: ...
    @overload
    def chain(
        self, a: _Returns[A | Next], b: _Takes[A, B | Next], c: _Takes[B, C | Next], /
    ) -> None: ...
    @overload
    def chain(
        self,
        a: _Returns[A | Next],
        b: _Takes[A, B | Next],
        c: _Takes[B, C | Next],
        d: _Takes[C, D | Next],
        /,
    ) -> None: ...
    @overload
    def chain(
        self,
        a: _Returns[A | Next],
        b: _Takes[A, B | Next],
        c: _Takes[B, C | Next],
        d: _Takes[C, D | Next],
        e: _Takes[D, E | Next],
        /,
        *more: Step[..., Any],
    ) -> None: ...
    def chain(self, *steps: Any) -> None:
        """Run steps one after another, each with the result of the step before as its only argument.

        `flow.chain(a, b, c)` gives b the result of a, and c the result of b. Type checkers compare the
        first five. A step may still return `step.next(...)`, which leaves the chain.
        """
        if len(steps) < 2:
            raise ConfigError(f"a chain of flow {self.name} needs two steps or more")
        for step in steps:
            _check_belongs(self._steps, step)
        following = dict(self._steps.following)
        for before, after in pairwise(steps):
            if before.definition.step in following:
                taken = following[before.definition.step].step
                raise ConfigError(
                    f"{before.definition.handler} is followed by {taken} already; return "
                    "step.next(...) where a step may go to more than one"
                )
            following[before.definition.step] = after.definition
        self._steps.following.update(following)

    def state(self, ctx: Context) -> S:
        """Return the state that the job carries. Changes are kept when the step succeeds."""
        if self._steps.state is None:
            raise ConfigError(f"flow {self.name} has no state; define it with state=")
        state: S = ctx.state
        return state

    def using(self, **options: Unpack[CallOptions]) -> BoundTask[..., Any]:
        """Return this flow with options for a call: those of `Task.using`, and `state`.

        Options that are left out are the flow's.
        """
        return BoundTask(self._session, self._steps.first(), Options.of(options))

    async def enqueue(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """Enqueue a job that starts at the first step declared. Its result is that of the last step."""
        return await self.using().enqueue(*args, **kwargs)

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any] | Call[Any]]) -> list[Job[Any]]:
        """Enqueue a job of each call, all or none. Return their handles in order."""
        return await self.using().enqueue_many(calls)

    # -- sync: generated by scripts/sync from the async methods; do not edit --

    def enqueue_sync(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """Sync version of `enqueue`.

        Enqueue a job that starts at the first step declared. Its result is that of the last
        step.
        """
        return self.using().enqueue_sync(*args, **kwargs)

    def enqueue_many_sync(self, calls: Iterable[Mapping[str, Any] | Call[Any]]) -> list[Job[Any]]:
        """Sync version of `enqueue_many`.

        Enqueue a job of each call, all or none. Return their handles in order.
        """
        return self.using().enqueue_many_sync(calls)

    # -- end of the generated methods --

    def call(self, *args: Any, **kwargs: Any) -> Call[Any]:
        """Return this call, checked, for `enqueue_many` and `ctx.enqueue`."""
        return self.using().call(*args, **kwargs)


class StepDecorator(Protocol):
    """The type of `@flow.step(...)`; see `TaskDecorator`."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Unnamed, ...], Awaitable[R]], /
    ) -> Step[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Unnamed, ...], R], /) -> Step[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Awaitable[R]], /
    ) -> Step[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Step[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Step[..., Any]: ...


def _shape(flow: str, state: type[S]) -> Shape[S]:
    try:
        return Shape(state)
    except TypeError as error:
        raise ConfigError(f"the state of flow {flow} cannot be stored: {error}") from error


def _check_belongs(steps: Steps, step: object) -> None:
    definition = getattr(step, "definition", None)
    if not isinstance(definition, Definition) or definition.flow is not steps:
        named = definition.handler if isinstance(definition, Definition) else repr(step)
        raise ConfigError(f"{named} is not a step of flow {steps.flow}")
