"""`Flow`: a task made of steps, each of which says where to go next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
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

from headway.calls import Call, CallOptions, Options
from headway.core.codec import Shape
from headway.core.config import Retention
from headway.core.context import Context
from headway.core.definition import Definition, Steps
from headway.core.duration import Duration, seconds
from headway.core.flow import Next
from headway.core.keys import as_key
from headway.core.names import check_name
from headway.core.retry import as_retry
from headway.define import FlowOptions, StepOptions, check_options, define_step, endings
from headway.errors import ConfigError
from headway.handle import Job
from headway.session import Session
from headway.task import Bound, Unnamed, Wrapped

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
V = TypeVar("V")
W = TypeVar("W")
V_contra = TypeVar("V_contra", contravariant=True)
W_co = TypeVar("W_co", covariant=True)


class Step(Wrapped[P, Any], Generic[P, R]):
    """One step of a flow. Made by `@flow.step`.

    A step that returns `other.next(...)` goes there; anything else ends the flow with that result.
    """

    @property
    def name(self) -> str:
        return self.definition.step

    def next(self, *args: P.args, **kwargs: P.kwargs) -> Next:
        """Where to go from here: to this step, with this input, now (or after the step's own delay)."""
        return Next(self.definition, self.definition.bind(args, kwargs))

    def after(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Next:
        """The same, not before `delay` from now. No worker waits for it."""
        wait = seconds(delay, name="delay")
        return Next(self.definition, self.definition.bind(args, kwargs), wait)

    if TYPE_CHECKING:

        def takes(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """What this step takes and returns, in a chain."""
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


class Chain(Generic[V]):
    """Steps one after the other, each with the result of the one before. Made by `flow.then`."""

    def __init__(self, steps: Steps, last: Definition) -> None:
        self._steps = steps
        self._last = last

    def then(self, step: _Takes[V, W | Next]) -> Chain[W]:
        """Goes on with a step that takes one value: what the step before returned.

        A step of a chain may still return `step.next(...)`, and leaves the chain by that.
        """
        _check_belongs(self._steps, step.definition)
        if self._last.step in self._steps.following:
            taken = self._steps.following[self._last.step].step
            raise ConfigError(
                f"{self._last.handler} is followed by {taken} already; return "
                "step.next(...) where a step may go to more than one"
            )
        self._steps.following[self._last.step] = step.definition
        return Chain(self._steps, step.definition)


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
            raise ConfigError(f"name {name!r} must not have a / in it: it parts flow and step")
        check_options(FlowOptions, options, f"flow {name}")
        endings(options, retention)
        as_retry(options.get("retry"))
        self._session = session
        self._options = options
        self._retention = retention
        self._steps = Steps(name)
        self._steps.key = as_key(options.get("concurrency_key"))
        if state is not None:
            self._steps.state, self._steps.initial = _shape(name, state), state

    def __repr__(self) -> str:
        return f"<Flow {self.name}>"

    def definitions(self) -> list[Definition]:
        """For workers: its steps."""
        self._steps.first()
        return list(self._steps.steps.values())

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
        """Makes a function a step of this flow; with options or without."""

        def define(function: Callable[..., Any]) -> Step[..., Any]:
            definition = define_step(self._steps, self._options, function, options, self._retention)
            self._steps.add(definition)
            return Step[..., Any](self._session, definition)

        return define if function is None else define(function)

    def then(self, step: _Returns[V | Next]) -> Chain[V]:
        """Begins a chain: `flow.then(a).then(b)` gives b what a returned, and so on."""
        _check_belongs(self._steps, step.definition)
        return Chain(self._steps, step.definition)

    def state(self, ctx: Context) -> S:
        """What the job at hand carries along; changes are kept when the step has succeeded."""
        if self._steps.state is None:
            raise ConfigError(f"flow {self.name} carries no state; define it with state=")
        state: S = ctx.state
        return state

    # -- enqueuing, at the first step declared ----------------------------------------------------

    def using(self, **options: Unpack[CallOptions]) -> Bound[..., Any]:
        """This flow with options for a call; those left out are the flow's."""
        return Bound(self._session, self._steps.first(), Options.of(options))

    async def enqueue(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """Makes a job that starts at the first step declared, and ends with the last one's result."""
        return await self.using().enqueue(*args, **kwargs)

    def enqueue_sync(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """As `enqueue`."""
        return self.using().enqueue_sync(*args, **kwargs)

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any] | Call]) -> list[Job[Any]]:
        """As `Task.enqueue_many`."""
        return await self.using().enqueue_many(calls)

    def enqueue_many_sync(self, calls: Iterable[Mapping[str, Any] | Call]) -> list[Job[Any]]:
        """As `Task.enqueue_many`."""
        return self.using().enqueue_many_sync(calls)

    def call(self, *args: Any, **kwargs: Any) -> Call:
        """As `Task.call`."""
        return self.using().call(*args, **kwargs)


class StepDecorator(Protocol):
    """What `@flow.step(...)` does to a function; see `TaskDecorator`."""

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


def _check_belongs(steps: Steps, definition: Definition) -> None:
    if definition.flow is not steps:
        raise ConfigError(f"{definition.handler} is not a step of flow {steps.flow}")
