"""Which parameters of a function are injected: its `Context`, and those that `Depends` names. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from headway.core.context import Context
from headway.core.depends import Dependency
from headway.core.signature import annotation, item_type, notes, parameters
from headway.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Injected:
    """The parameters of a function that are not part of its call."""

    dependencies: dict[str, Dependency]
    context: str | None
    """The parameter that takes the `Context`, if there is one."""


def injected(function: Callable[..., Any], named: str, *, batch: bool = False) -> Injected:
    """Return the injected parameters of a function. `named` is its name in messages.

    Raise ConfigError for a `Context` or a `Depends` that could not be injected, and for an annotation
    that cannot be read. A handler of a batch takes a `list[Context]`.
    """
    dependencies: dict[str, Dependency] = {}
    contexts: list[str] = []
    unreadable: ConfigError | None = None
    for name, parameter in parameters(function).items():
        what = f"parameter {name} of {named}"
        if name in getattr(function, "keywords", ()) and not _is_by_default(parameter):
            continue  # a partial that has a value for it
        try:
            dependency = _dependency(function, parameter, what)
            if dependency is not None:
                dependencies[name] = dependency
            elif _is_context(annotation(function, name), parameter, what, batch):
                contexts.append(name)
        except ConfigError as error:
            if not is_unreadable(error):
                raise
            unreadable = unreadable or error  # the other parameters may be wrong as well
    if len(contexts) > 1:
        raise ConfigError(
            f"{named} takes a Context twice, as {' and '.join(contexts)}; leave out one of them"
        )
    if unreadable is not None:
        raise unreadable
    return Injected(dependencies, contexts[0] if contexts else None)


def is_unreadable(error: ConfigError) -> bool:
    """Return whether an annotation names something that is not defined, or not yet."""
    return isinstance(error.__cause__, NameError)


def check_providers(named: str, dependencies: Mapping[str, Dependency], *, batch: bool) -> None:
    """Raise ConfigError if a provider, or a provider that it depends on, cannot be called.

    A provider that takes a `Context` needs one job. A worker's provider and a batch have none.
    """
    for name, dependency in dependencies.items():
        _check_provider(f"{name} of {named}", dependency, dependency.scope == "worker", batch, ())


def _check_provider(
    what: str,
    dependency: Dependency,
    of_worker: bool,
    of_batch: bool,
    above: tuple[Callable[..., Any], ...],
) -> None:
    provider = dependency.provider
    called = name_of(provider)
    if any(provider is one for one in above):
        raise ConfigError(f"{what} cannot be made: {called} depends on itself")
    found = injected(provider, called)
    if found.context is not None and of_worker:
        raise ConfigError(
            f"{what} is made once per worker, but {called} takes the Context of a job; leave out "
            'scope="worker", or the Context'
        )
    if found.context is not None and of_batch:
        raise ConfigError(
            f"{what} depends on a Context, but a batch has one for each of its jobs; take a "
            "list[Context] in the handler instead"
        )
    for inner in found.dependencies.values():
        _check_provider(what, inner, of_worker, of_batch, (*above, provider))


def name_of(provider: Callable[..., Any]) -> str:
    """Return the name of a provider for messages."""
    return getattr(provider, "__qualname__", None) or repr(provider)


def _dependency(
    function: Callable[..., Any], parameter: inspect.Parameter, what: str
) -> Dependency | None:
    """Return the dependency of one parameter, from its default or its annotation."""
    by_default = parameter.default if _is_by_default(parameter) else None
    named = [note for note in notes(function, parameter.name) if isinstance(note, Dependency)]
    if by_default is not None and by_default.is_complete:
        named.append(by_default)
    if len(named) > 1:
        raise ConfigError(f"{what} has more than one Depends; leave out all but one")
    if by_default is not None and not named:
        raise ConfigError(
            f"{what} has Depends() without a function; write Depends(f), or annotate it with "
            "Annotated[..., Depends(f)]"
        )
    if named and not named[0].is_complete:
        raise ConfigError(f"{what} has Depends() without a function; write Depends(f)")
    return named[0] if named else None


def _is_by_default(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.default, Dependency)


def _is_context(kind: Any, parameter: inspect.Parameter, what: str, batch: bool) -> bool:
    """Return whether this is where the `Context` goes. Raise ConfigError if it looks so and is not."""
    right = "list[Context]" if batch else "Context"
    if any(isinstance(part, Dependency) for part in _parts(kind)):
        raise ConfigError(
            f"{what} has its Depends inside another type; write Annotated[..., Depends(f)] around all "
            "of it"
        )
    plain = _plain(kind)
    if (_plain(item_type(plain)) if batch else plain) is Context:
        if parameter.default is not parameter.empty:
            raise ConfigError(
                f"{what} is a {right} with a default, but it is always given; write "
                f"`{parameter.name}: {right}`"
            )
        return True
    if any(isinstance(part, type) and issubclass(part, Context) for part in _parts(kind)):
        written = getattr(kind, "__qualname__", kind)
        raise ConfigError(
            f"{what} is annotated {written}, which is not injected; write "
            f"`{parameter.name}: {right}`"
        )
    return False


def _plain(kind: Any) -> Any:
    """Return a type without the notes of `Annotated`."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _parts(kind: Any) -> Iterator[Any]:
    """Yield a type, and all types and notes that it is made of."""
    yield kind
    inner: tuple[Any, ...] = tuple(kind) if isinstance(kind, list) else get_args(kind)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    for part in inner:
        yield from _parts(part)
