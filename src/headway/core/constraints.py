"""Types of parameters: constraints of other libraries, and what no JSON can hold. Pure."""

from __future__ import annotations

import types
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

_BOUNDS = {
    "Gt": ("gt", "gt"),
    "Ge": ("ge", "ge"),
    "Lt": ("lt", "lt"),
    "Le": ("le", "le"),
    "MultipleOf": ("multiple_of", "multiple_of"),
    "MinLen": ("min_length", "min_length"),
    "MaxLen": ("max_length", "max_length"),
}
"""Constraints of `annotated_types`, which pydantic uses: the attribute, and msgspec's name for it."""
_OF_JSON = (str, int, float, bool, list, dict, type(None))


def stored_type(kind: Any) -> Any:
    """Return the type with its constraints as msgspec knows them.

    Raise TypeError for a constraint that would not be kept.
    """
    if get_origin(kind) is not Annotated:
        _check_nested(kind)
        return kind
    inner, *notes = get_args(kind)
    _check_nested(inner)
    kept: list[Any] = []
    for note in notes:
        kept += _translated(note)
    return Annotated[(inner, *kept)] if kept else inner  # type: ignore[return-value, unused-ignore]


def check_storable(name: str, kind: Any) -> None:
    """Raise TypeError if no value of this type can be stored as JSON and read back."""
    for found in _custom(msgspec.inspect.type_info(kind)):
        if not _may_come_from_json(found):
            called = getattr(found, "__qualname__", str(found))
            raise TypeError(
                f"{name} is a {called}, which JSON does not hold; take text or a number"
            )


def _translated(note: Any) -> list[Any]:
    if _is_of(note, "pydantic", "FieldInfo"):
        return [each for inner in note.metadata for each in _translated(inner)]
    if _is_of(note, "annotated_types", *_BOUNDS):
        attribute, ours = _BOUNDS[type(note).__name__]
        return [msgspec.Meta(**{ours: getattr(note, attribute)})]
    if getattr(note, "pattern", None) is not None and type(note).__module__.startswith("pydantic"):
        return [msgspec.Meta(pattern=note.pattern)]
    if type(note).__module__.split(".")[0] in ("pydantic", "annotated_types"):
        raise TypeError(f"{note!r} would not be checked; check it in the function, or take a model")
    return [note]


def _check_nested(kind: Any) -> None:
    for part in get_args(kind):
        if get_origin(part) is Annotated and any(
            type(note).__module__.split(".")[0] in ("pydantic", "annotated_types")
            for note in get_args(part)[1:]
        ):
            raise TypeError(f"{part!r} inside another type would not be checked; take a model")
        if isinstance(get_origin(part), type) or get_origin(part) in (Union, types.UnionType):
            _check_nested(part)


def _is_of(note: Any, module: str, *names: str) -> bool:
    return type(note).__module__.split(".")[0] == module and type(note).__name__ in names


def _custom(info: msgspec.inspect.Type) -> list[Any]:
    """The types, in this one, that msgspec leaves to us. Of a class of the user's it is none: its fields
    are read when it is first used."""
    match info:
        case msgspec.inspect.CustomType(cls):
            return [cls]
        case msgspec.inspect.UnionType(parts):
            return [found for part in parts for found in _custom(part)]
        case msgspec.inspect.Metadata(inner):
            return _custom(inner)
        case msgspec.inspect.CollectionType():
            return _custom(info.item_type)
        case msgspec.inspect.DictType():
            return [*_custom(info.key_type), *_custom(info.value_type)]
        case msgspec.inspect.TupleType():
            return [found for part in info.item_types for found in _custom(part)]
        case _:
            return []


def _may_come_from_json(kind: Any) -> bool:
    if hasattr(kind, "model_validate"):
        return True
    try:
        return any(issubclass(one, kind) for one in _OF_JSON)
    except TypeError:
        return True  # not a class: the decoder knows
