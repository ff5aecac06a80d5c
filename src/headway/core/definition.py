"""A task as the engine knows it: a function, read once, with everything that follows from it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal, cast, get_type_hints

from headway.core import codec
from headway.core.config import check_name, check_priority
from headway.core.context import Context
from headway.core.depends import Dependency
from headway.core.duration import optional_seconds
from headway.core.retry import Retry
from headway.errors import ConfigError, InvalidInput

ExecutorKind = Literal["async", "thread", "process"]
RESERVED = frozenset({"self", "conn"})


@dataclass(frozen=True)
class Definition:
    """A task's function and options. Its annotations are read on first use, so that a module may
    name types that are defined further down."""

    name: str
    function: Callable[..., Any] = field(repr=False)
    queue: str
    priority: int
    retry: Retry
    timeout: Any
    ttl: Any
    executor: ExecutorKind
    slots: int | None

    def __post_init__(self) -> None:
        check_name(self.name, "task name")
        check_name(self.queue, "queue")
        check_priority(self.priority)
        optional_seconds(self.timeout, name="timeout")
        optional_seconds(self.ttl, name="ttl")
        if self.slots is not None and self.slots < 1:
            raise ConfigError(f"slots {self.slots} of task {self.name} must be at least 1")
        if self.executor == "process" and "<locals>" in self.function.__qualname__:
            raise ConfigError(
                f"task {self.name} runs in a process and must be defined at the top of a module, "
                "so that the process can import it"
            )
        for parameter in self._signature.parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise ConfigError(
                    f"parameter {parameter} of task {self.name} has no name of its own in a stored "
                    "call; use named parameters"
                )
            if parameter.name in RESERVED and not isinstance(parameter.default, Dependency):
                raise ConfigError(
                    f"task {self.name} cannot have a parameter named {parameter.name}"
                )

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @cached_property
    def timeout_seconds(self) -> float | None:
        return optional_seconds(self.timeout)

    @cached_property
    def context_parameter(self) -> str | None:
        """The name of the first parameter, if it is annotated `Context`."""
        first = next(iter(self._signature.parameters.values()), None)
        if first is not None and annotation(self.function, first.name) is Context:
            return first.name
        return None

    @cached_property
    def dependencies(self) -> dict[str, Dependency]:
        return dependencies(self.function)

    @cached_property
    def call_signature(self) -> inspect.Signature:
        """The signature that callers of `enqueue` see."""
        hidden = {self.context_parameter, *self.dependencies}
        kept = [p for p in self._signature.parameters.values() if p.name not in hidden]
        # A dependency may stand before a required parameter; among keywords order does not matter.
        if any(
            a.default is not a.empty and b.default is b.empty and b.kind is b.POSITIONAL_OR_KEYWORD
            for a, b in pairwise(kept)
        ):
            kept = [p.replace(kind=p.KEYWORD_ONLY) for p in kept]
        return self._signature.replace(parameters=kept)

    @cached_property
    def parameters(self) -> codec.Parameters:
        fields: dict[str, tuple[Any, Any]] = {}
        for name, parameter in self.call_signature.parameters.items():
            default = codec.REQUIRED if parameter.default is parameter.empty else parameter.default
            fields[name] = (annotation(self.function, name), default)
        try:
            return codec.Parameters(self.function.__name__, fields)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"the parameters of task {self.name} cannot be stored: {error}"
            ) from error

    @cached_property
    def result(self) -> codec.Shape[Any]:
        """Reads stored results back as what the function says it returns."""
        kind = annotation(self.function, "return")
        try:
            return codec.Shape(kind)
        except TypeError:
            return codec.Shape(Any)

    def encode_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The stored form of a call; InvalidInput if it does not fit the signature."""
        try:
            bound = self.call_signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidInput(f"{self.name}: {error}; it takes {self.call_signature}") from None
        try:
            return self.parameters.encode(bound.arguments)
        except InvalidInput as error:
            raise type(error)(f"{self.name}: {error}") from error

    def check(self) -> None:
        """Reads everything that is read lazily, so that a worker fails at its start if at all."""
        _ = (self.parameters, self.dependencies, self.result)
        if self.executor == "process" and not self._is_importable():
            raise ConfigError(
                f"task {self.name} runs in a process, which cannot find it: {self.function.__module__} "
                f"has no task {self.function.__qualname__}; assign it to its function's name there"
            )

    def _is_importable(self) -> bool:
        found: Any = sys.modules.get(self.function.__module__)
        for part in self.function.__qualname__.split("."):
            found = getattr(found, part, None)
        return getattr(getattr(found, "definition", None), "function", None) is self.function


def dependencies(function: Callable[..., Any]) -> dict[str, Dependency]:
    """The parameters of a function that are to be injected."""
    return {
        name: parameter.default
        for name, parameter in parameters(function).items()
        if isinstance(parameter.default, Dependency)
    }


def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of anything that can be called; none where it does not tell (some builtins)."""
    try:
        return inspect.signature(function).parameters
    except ValueError:
        return {}


def annotation(function: Callable[..., Any], name: str) -> Any:
    """The type of one parameter; read alone, because others may name what is not importable."""
    function = _written(function)
    raw = inspect.get_annotations(function).get(name, Any)

    class Alone:
        __annotations__ = {name: raw}

    try:
        hints = get_type_hints(
            Alone,
            globalns=getattr(function, "__globals__", {}),
            localns=_enclosed(function),
            include_extras=True,
        )
    except NameError as error:
        raise ConfigError(
            f"the annotation of {name} in {function.__qualname__} cannot be read: {error}; types of "
            "a task's parameters must be importable where the function is defined"
        ) from error
    return hints[name]


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as someone wrote it, whose names its annotations use: behind decorators and
    partials, and the one that makes or calls an object."""
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(cast("partial[Any]", function).func)  # type: ignore[redundant-cast]
    if inspect.isclass(function):
        return cast("Callable[..., Any]", function.__init__)
    return function if inspect.isroutine(function) else type(function).__call__


def _enclosed(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables of enclosing functions that it uses and that have a value by now."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        with suppress(ValueError):  # assigned further down
            found[name] = cell.cell_contents
    return found
