"""Calling a task's function directly, as tests do: what `Depends` names is made for the call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.depends import Dependency
from headway.core.injection import injected, name_of
from headway.engine.running.invoke import Injector, Overrides


def call(
    definition: Definition, overrides: Overrides, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call the function with everything that it takes. Dependencies that are not given are made, and
    closed after the call; those of a worker, too.

    Raise TypeError for a plain function whose dependency must be awaited.
    """
    function = definition.function
    try:
        given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except TypeError:
        return function(*args, **kwargs)  # Python says what is wrong
    wanted = {name: one for name, one in definition.dependencies.items() if name not in given}
    if not wanted:
        return function(*args, **kwargs)
    found = given.get(definition.context_parameter or "")
    context: Callable[[], Context] = lambda: found or Context.fake(task=definition.name)  # noqa: E731
    if definition.executor == "async":
        return _awaited(function, overrides, wanted, context, args, kwargs)
    with ExitStack() as stack:
        made: dict[Callable[..., Any], Any] = {}
        values = {
            name: _value(definition, name, one, overrides, stack, context, made)
            for name, one in wanted.items()
        }
        return function(*args, **{**kwargs, **values})


async def _awaited(
    function: Callable[..., Any],
    overrides: Overrides,
    wanted: Mapping[str, Dependency],
    context: Callable[[], Context],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    injector = Injector(overrides)
    try:
        async with AsyncExitStack() as stack:
            values = await injector.resolve(wanted, stack, context)
            return await function(*args, **{**kwargs, **values})
    finally:
        await injector.close()


def _value(
    definition: Definition,
    name: str,
    dependency: Dependency,
    overrides: Overrides,
    stack: ExitStack,
    context: Callable[[], Context],
    made: dict[Callable[..., Any], Any],
) -> Any:
    provider = overrides.get(dependency.provider, dependency.provider)
    if provider in made:
        return made[provider]
    if inspect.iscoroutinefunction(provider) or inspect.isasyncgenfunction(provider):
        raise TypeError(
            f"{definition.handler} cannot be called directly without {name}: {provider.__qualname__} "
            f"must be awaited, and a plain function cannot do that; give {name}=..."
        )
    needs = injected(provider, name_of(provider))
    arguments: dict[str, Any] = {
        inner: _value(definition, name, one, overrides, stack, context, made)
        for inner, one in needs.dependencies.items()
    }
    if needs.context is not None:
        arguments[needs.context] = context()
    if inspect.isgeneratorfunction(provider):
        made[provider] = stack.enter_context(contextmanager(provider)(**arguments))
    else:
        made[provider] = provider(**arguments)
    return made[provider]
