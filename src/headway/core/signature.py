"""Reading functions: their parameters, and their annotations one by one. Pure."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from headway.errors import ConfigError

_LISTS = (list, Sequence, Collection, Iterable)


def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of anything that can be called. Some builtins do not tell theirs."""
    try:
        return inspect.signature(function).parameters
    except ValueError:
        return {}


def annotation(function: Callable[..., Any], name: str) -> Any:
    """Return the type of one parameter. It is read alone: others may name types that cannot be imported.

    Raise ConfigError if it names something that is not defined.
    """
    function = _written(function)
    try:
        return _resolved(function, name, _enclosed(function))
    except NameError as error:
        raise ConfigError(
            f"the annotation of {name} in {function.__qualname__} cannot be read: {error}; types of "
            "a task's parameters must be importable where the function is defined"
        ) from error


def notes(function: Callable[..., Any], name: str) -> tuple[Any, ...]:
    """Return the notes of a parameter: the arguments of `Annotated` after the type.

    The type itself may be imported for type checkers only. Raise ConfigError if a note names something
    that is not defined.
    """
    written = _written(function)
    known = vars(builtins) | getattr(written, "__globals__", {}) | _enclosed(written)
    try:
        found = _notes_of(_resolved(written, name, _Names(known)))
    except Exception:
        found = (_Unknown,)
    if any(_is_unknown(note) for note in found):
        return _notes_of(annotation(function, name))
    return found


def check_aliases(
    handler: str, aliases: Mapping[str, str], parameters: Mapping[str, object]
) -> None:
    """Raise ConfigError if an earlier name is one of today, or stands for none of today."""
    for old, new in aliases.items():
        if old in parameters:
            raise ConfigError(
                f"alias {old!r} of {handler} is the name of a parameter; give earlier names"
            )
        if new not in parameters:
            known = ", ".join(parameters) or "none"
            raise ConfigError(
                f"alias {old!r} of {handler} stands for {new!r}, which is not a parameter; it has {known}"
            )


def item_type(kind: Any) -> Any:
    """Return the type of the items of a list; none if it is not a list."""
    if kind is Any or kind in _LISTS:
        return Any
    if get_origin(kind) in _LISTS:
        return get_args(kind)[0]
    return None


class _AnyAttribute(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class _Unknown(metaclass=_AnyAttribute):
    """Stands for a name in an annotation that is not defined."""

    def __class_getitem__(cls, _: Any) -> Any:
        return cls


class _Names(dict[str, Any]):
    def __missing__(self, _: str) -> Any:
        return _Unknown


def _is_unknown(note: Any) -> bool:
    return note is _Unknown or getattr(note, "provider", None) is _Unknown


def _notes_of(kind: Any) -> tuple[Any, ...]:
    return get_args(kind)[1:] if get_origin(kind) is Annotated else ()


def _resolved(function: Callable[..., Any], name: str, local: dict[str, Any]) -> Any:
    raw = inspect.get_annotations(function).get(name, Any)

    class Alone:
        __annotations__ = {name: raw}

    kind = get_type_hints(
        Alone,
        globalns=getattr(function, "__globals__", {}),
        localns=local,
        include_extras=True,
    )[name]
    # `type Mailer = Annotated[Smtp, Depends(get_smtp)]` hides its value.
    return kind.__value__ if type(kind).__name__ == "TypeAliasType" else kind


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as someone wrote it, whose names its annotations use: behind decorators and
    partials, and the one that makes or calls an object."""
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(cast("partial[Any]", function).func)  # type: ignore[redundant-cast]
    if inspect.isclass(function):
        return cast("Callable[..., Any]", function.__init__)
    return function if inspect.isroutine(function) else type(function).__call__


def _enclosed(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the variables of enclosing functions that it uses and that have a value by now."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        with suppress(ValueError):  # assigned further down
            found[name] = cell.cell_contents
    return found
