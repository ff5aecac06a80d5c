"""Kinds of values: which values fit a field's type, and how to parse one from a variable's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from headway.core.config import Keep, keep_seconds
from headway.core.duration import seconds
from headway.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SettingKind:
    """A kind of value: how to check it and how to parse it."""

    words: str
    """For people: "a whole number, like 20"."""
    fits: Callable[[Any], bool]
    from_text: Callable[[str], Any]
    """Parses a variable. Raises ValueError if it cannot."""


def kind_of(hint: Any) -> SettingKind:
    """Return the kind of a field with this annotation. Raise TypeError if it cannot be configured."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) is Literal:
        return _choice(get_args(hint))
    if get_origin(hint) is Mapping and get_args(hint) == (str, int):
        return WEIGHTS
    if get_origin(hint) in (Union, UnionType):
        return _any_of(get_args(hint))
    raise TypeError(
        f"a setting cannot have type {hint}; use a type that settings/kinds.py parses, or add this "
        "one there"
    )


def _whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _duration(value: Any) -> bool:
    try:
        seconds(value)
    except ConfigError:
        return False
    return True


def _keep(value: Any) -> bool:
    try:
        keep_seconds(value)
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


WHOLE_NUMBER = SettingKind("a whole number, like 20", _whole_number, int)
NUMBER = SettingKind(
    "a number", lambda value: _whole_number(value) or isinstance(value, float), float
)
TEXT = SettingKind("text", lambda value: isinstance(value, str), str)
PLACE = SettingKind("a path", lambda value: isinstance(value, str | Path), str)
SWITCH = SettingKind("true or false", lambda value: isinstance(value, bool), _switch_from_text)
DURATION = SettingKind(
    "a duration, like '90s', '10m', '1h30m', '3d', or a number of seconds, up to 100 years",
    _duration,
    _duration_from_text,
)
KEEP = SettingKind(f"{DURATION.words}, or 'forever', or 'none'", _keep, _duration_from_text)
WEIGHTS = SettingKind(
    "a table of queues and numbers, like {mail = 3}, or a list like ['mail:3', 'default']",
    _weights,
    _refuse,  # layers.py parses the notation, which may set two fields
)

_PLAIN: Mapping[Any, SettingKind] = {
    bool: SWITCH,
    int: WHOLE_NUMBER,
    float: NUMBER,
    str: TEXT,
    Path: PLACE,
    Keep: KEEP,
}


def _choice(choices: tuple[Any, ...]) -> SettingKind:
    words = " or ".join(f"'{choice}'" for choice in choices)
    return SettingKind(words, lambda value: isinstance(value, str) and value in choices, str)


def _any_of(hints: tuple[Any, ...]) -> SettingKind:
    optional = NoneType in hints
    rest = [hint for hint in hints if hint is not NoneType]
    if timedelta in rest:
        kinds = [DURATION]
    elif Path in rest:
        kinds = [PLACE]
    else:
        # Text accepts anything, so it is tried last.
        kinds = sorted((kind_of(hint) for hint in rest), key=lambda kind: kind is TEXT)
    return _optional(_union(kinds)) if optional else _union(kinds)


def _union(kinds: list[SettingKind]) -> SettingKind:
    if len(kinds) == 1:
        return kinds[0]

    def from_text(text: str) -> Any:
        for kind in kinds[:-1]:
            try:
                return kind.from_text(text)
            except ValueError:
                continue
        return kinds[-1].from_text(text)

    return SettingKind(
        " or ".join(kind.words for kind in kinds),
        lambda value: any(kind.fits(value) for kind in kinds),
        from_text,
    )


def _optional(kind: SettingKind) -> SettingKind:
    return SettingKind(
        f"{kind.words}, or 'none'",
        lambda value: value is None or kind.fits(value),
        lambda text: None if is_none(text) else kind.from_text(text),
    )


def is_none(value: Any) -> bool:
    """Return whether a value stands for `None` in a format that has no null."""
    return isinstance(value, str) and value.strip().lower() == "none"
