"""Types of parameters: constraints of other libraries, and types that JSON cannot hold. Pure."""

from __future__ import annotations

import dataclasses
import inspect
import types
from contextlib import suppress
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

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
_NOT_OF_PARAMETERS = ("alias", "validation_alias", "serialization_alias", "discriminator")
_UNIONS = (Union, types.UnionType)
_OF_JSON = (str, int, float, bool, list, dict, type(None))


def stored_type(kind: Any) -> Any:
    """Return the type with its constraints as msgspec knows them, also inside lists and the like.

    Raise TypeError for a constraint that would not be checked.
    """
    return _stored(kind, set())


def check_default(name: str, default: Any) -> None:
    """Raise TypeError for a default that is about the parameter, not a value."""
    if _is_of(default, "pydantic", "FieldInfo"):
        raise TypeError(
            f"the default of {name} is a Field; write {name}: Annotated[..., Field(...)], and its "
            "default as a value"
        )


def check_storable(name: str, kind: Any) -> None:
    """Raise TypeError if no value of this type can be stored as JSON and read back."""
    for found in _custom(msgspec.inspect.type_info(kind)):
        if not _may_come_from_json(found):
            called = getattr(found, "__qualname__", str(found))
            is_row = hasattr(found, "_meta") or hasattr(found, "__mapper__")
            instead = "its primary key, and load it in the task" if is_row else "text or a number"
            raise TypeError(f"{name} is a {called}, which JSON does not hold; take {instead}")


def _stored(kind: Any, seen: set[Any]) -> Any:
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        kept = [each for note in notes for each in _translated(note)]
        stored = _stored(inner, seen)
        if not kept:
            return stored
        # msgspec has no constraints of a union: they are those of its parts.
        parts = get_args(stored) if get_origin(stored) in _UNIONS else (stored,)
        return Union[tuple(p if p is types.NoneType else Annotated[(p, *kept)] for p in parts)]  # pyright: ignore # noqa: UP007
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal or not parts:
        _check_fields(kind, seen)
        return kind
    stored_parts = tuple(_stored(part, seen) for part in parts)
    if all(new is old for new, old in zip(stored_parts, parts, strict=True)):
        return kind
    return Union[stored_parts] if origin in _UNIONS else origin[stored_parts]  # pyright: ignore # noqa: UP007


def _check_fields(kind: Any, seen: set[Any]) -> None:
    """Raise TypeError if a field of a dataclass, or of its kin, has a constraint of another library."""
    if not _has_fields(kind) or kind in seen:
        return
    seen.add(kind)
    hints: dict[str, Any] = {}
    with suppress(NameError):  # msgspec says which name it is
        hints = get_type_hints(kind, include_extras=True)
    for name, hint in hints.items():
        if any(_is_foreign(note) for note in _notes(hint)):
            raise TypeError(
                f"the constraint of {kind.__name__}.{name} would not be checked; write "
                "msgspec.Meta(...), or take a pydantic model"
            )
        _stored(hint, seen)


def _has_fields(kind: Any) -> bool:
    """Return whether msgspec reads a class by its fields."""
    if not inspect.isclass(kind) or hasattr(kind, "model_validate"):
        return False
    is_marked = hasattr(kind, "__total__") or hasattr(kind, "_fields")  # TypedDict, NamedTuple
    return is_marked or dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)


def _notes(kind: Any) -> list[Any]:
    """Return what `Annotated` says in a type and in its parts."""
    own = list(get_args(kind)[1:]) if get_origin(kind) is Annotated else []
    inner = get_args(kind)[:1] if own else get_args(kind)
    return own + [note for part in inner for note in _notes(part)]


def _is_foreign(note: Any) -> bool:
    translated = _translated(note)
    return bool(translated) and translated[0] is not note


def _translated(note: Any) -> list[Any]:
    if _is_of(note, "pydantic", "FieldInfo"):
        if not note.is_required() or any(getattr(note, name, None) for name in _NOT_OF_PARAMETERS):
            raise TypeError(
                f"{note!r} has more than constraints, which would not be checked; give only constraints"
            )
        return [each for inner in note.metadata for each in _translated(inner)]
    if _is_of(note, "annotated_types", *_BOUNDS):
        attribute, ours = _BOUNDS[type(note).__name__]
        return [msgspec.Meta(**{ours: getattr(note, attribute)})]
    if type(note).__module__.startswith("pydantic") and getattr(note, "__dict__", {}).keys() == {
        "pattern"
    }:
        return [msgspec.Meta(pattern=note.pattern)]
    if type(note).__module__.split(".")[0] in ("pydantic", "annotated_types"):
        raise TypeError(f"{note!r} would not be checked; check it in the function, or take a model")
    return [note]


def _is_of(note: Any, module: str, *names: str) -> bool:
    return type(note).__module__.split(".")[0] == module and type(note).__name__ in names


def _custom(info: msgspec.inspect.Type) -> list[Any]:
    """Return the types inside this one that msgspec leaves to us. Fields of classes are not among them:
    msgspec reads them when it first uses the class."""
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
