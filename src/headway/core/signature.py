"""Reading functions: their parameters, what is injected, and their annotations one by one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast, get_type_hints

from headway.core.depends import Dependency
from headway.errors import ConfigError


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


def takes(function: Callable[..., Any], kind: type) -> bool:
    """Whether a provider, or what it depends on in turn, has a parameter of this type."""
    return any(
        takes(parameter.default.provider, kind)
        if isinstance(parameter.default, Dependency)
        else annotation(function, name) is kind
        for name, parameter in parameters(function).items()
    )


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
