"""Everything that a public method takes or returns can be imported from `headway`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any, get_args, get_origin, get_overloads, get_type_hints

import pytest

import headway
from headway import errors

_PUBLIC = {name: getattr(headway, name) for name in headway.__all__}
_CLASSES = [name for name, found in _PUBLIC.items() if inspect.isclass(found)]

_INTERNAL = {
    "CallOf": "says what `ctx.enqueue` takes",
    "Definition": "workers read the definitions of a task; its fields may change",
    "NewJob": "the row that a call makes; its fields may change",
    "Options": "the checked options of a call",
    "PullRow": "PulledJob.of makes a handle from a row",
    "Session": "PulledJob.of makes a handle from a row",
    "Statement": "Worker.services run statements",
    "Unnamed": "chooses an overload",
    "_OfTheFirst": "says what the function of a key takes",
    "_Returns": "chooses an overload",
    "_Takes": "chooses an overload",
}


def _functions(kind: type) -> Iterator[Callable[..., Any]]:
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") and name != "__getitem__":
            continue
        if isinstance(member, property):
            assert member.fget is not None
            yield member.fget
        elif isinstance(member, cached_property):
            yield member.func
        elif inspect.isroutine(member) and hasattr(member, "__annotations__"):
            yield from (member, *get_overloads(member))


def _types(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, list | tuple):
        for part in annotation:
            yield from _types(part)
    if inspect.isclass(annotation):
        yield annotation
    for part in (get_origin(annotation), *get_args(annotation)):
        if part is not None:
            yield from _types(part)


def _named(kind: type) -> set[type]:
    hints = [hint for f in _functions(kind) for hint in get_type_hints(f).values()]
    if is_dataclass(kind):
        fields = get_type_hints(kind).items()
        hints += [hint for name, hint in fields if not name.startswith("_")]
    found = {each for hint in hints for each in _types(hint)}
    return {each for each in found if each.__module__.split(".")[0] == "headway"}


@pytest.mark.parametrize("name", _CLASSES)
def test_types_of_a_public_class_are_public(name: str) -> None:
    public = {id(found) for found in _PUBLIC.values()}
    hidden = {each.__name__ for each in _named(_PUBLIC[name]) if id(each) not in public}
    assert hidden - _INTERNAL.keys() == set()


def test_every_exception_is_still_needed() -> None:
    found = {each.__name__ for name in _CLASSES for each in _named(_PUBLIC[name])}
    assert _INTERNAL.keys() <= found


def test_no_public_name_says_row() -> None:
    assert [name for name in _PUBLIC if "Row" in name] == []


def test_every_error_is_public() -> None:
    ours = {
        name: found
        for name, found in vars(errors).items()
        if inspect.isclass(found) and found.__module__ == errors.__name__
    }
    assert ours.items() <= _PUBLIC.items()
