"""Kinds of values: what fits a field's type, and how the text of a variable is read as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from headway.core.duration import seconds
from headway.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be."""

    words: str
    """For people: "a whole number, like 20"."""
    fits: Callable[[Any], bool]
    from_text: Callable[[str], Any]
    """Reads a variable; ValueError if it cannot."""


def kind_of(hint: Any) -> Kind:
    """The kind of a field with this annotation; TypeError if values of it cannot be configured."""
    if get_origin(hint) is Literal:
        return _choice(get_args(hint))
    if get_origin(hint) is Mapping and get_args(hint) == (str, int):
        return WEIGHTS
    if get_origin(hint) in (Union, UnionType):
        return _any_of(get_args(hint))
    if hint in _PLAIN:
        return _PLAIN[hint]
    raise TypeError(
        f"no setting can be of type {hint}; give the field a type that settings/kinds.py reads, "
        "or teach it this one"
    )


def _whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _duration(value: Any) -> bool:
    try:
        seconds(value)
    except ConfigError:
        return False
    return True


def _duration_from_text(text: str) -> str | float:
    try:
        return float(text)  # a number of seconds
    except ValueError:
        return text


def _weights(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and _whole_number(weight)
        for name, weight in value.items()  # pyright: ignore[reportUnknownVariableType]
    )


def _refuse(text: str) -> Any:
    raise ValueError(text)


_SWITCH = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _switch_from_text(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ValueError(text)
    return _SWITCH[text.lower()]


WHOLE_NUMBER = Kind("a whole number, like 20", _whole_number, int)
NUMBER = Kind("a number", lambda value: _whole_number(value) or isinstance(value, float), float)
TEXT = Kind("text", lambda value: isinstance(value, str), str)
PLACE = Kind("a path", lambda value: isinstance(value, str | Path), str)
SWITCH = Kind("true or false", lambda value: isinstance(value, bool), _switch_from_text)
DURATION = Kind(
    "a duration, like '90s', '10m', '1h30m', '3d', or a number of seconds, up to 100 years",
    _duration,
    _duration_from_text,
)
WEIGHTS = Kind(
    "a table of queues and numbers, like {mail = 3}, or a list like ['mail:3', 'default']",
    _weights,
    _refuse,  # layers.py reads the notation, which may speak of two fields
)

_PLAIN: Mapping[Any, Kind] = {
    bool: SWITCH,
    int: WHOLE_NUMBER,
    float: NUMBER,
    str: TEXT,
    Path: PLACE,
}


def _choice(choices: tuple[Any, ...]) -> Kind:
    words = " or ".join(f"'{choice}'" for choice in choices)
    return Kind(words, lambda value: isinstance(value, str) and value in choices, str)


def _any_of(hints: tuple[Any, ...]) -> Kind:
    optional = NoneType in hints
    rest = [hint for hint in hints if hint is not NoneType]
    if timedelta in rest:
        kinds = [DURATION]
    elif Path in rest:
        kinds = [PLACE]
    else:
        # Text takes anything, so it is tried last.
        kinds = sorted((kind_of(hint) for hint in rest), key=lambda kind: kind is TEXT)
    return _optional(_union(kinds)) if optional else _union(kinds)


def _union(kinds: list[Kind]) -> Kind:
    if len(kinds) == 1:
        return kinds[0]

    def from_text(text: str) -> Any:
        for kind in kinds[:-1]:
            try:
                return kind.from_text(text)
            except ValueError:
                continue
        return kinds[-1].from_text(text)

    return Kind(
        " or ".join(kind.words for kind in kinds),
        lambda value: any(kind.fits(value) for kind in kinds),
        from_text,
    )


def _optional(kind: Kind) -> Kind:
    return Kind(
        f"{kind.words}, or 'none'",
        lambda value: value is None or kind.fits(value),
        lambda text: None if is_none(text) else kind.from_text(text),
    )


def is_none(value: Any) -> bool:
    """Whether a value is how one says `None` where there is no word for it."""
    return isinstance(value, str) and value.strip().lower() == "none"
