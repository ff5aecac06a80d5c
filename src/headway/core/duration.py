"""Durations as people write them: "90s", "1h30m", 2.5, timedelta."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from headway.errors import ConfigError

Duration = str | int | float | timedelta
"""A length of time. Numbers are seconds."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_UNITS["y"] = 365 * _UNITS["d"]
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w|y)")
_WHOLE = re.compile(rf"(?:{_PART.pattern}\s*)+")
_LONGEST = timedelta(days=365 * 100).total_seconds()


def seconds(value: Duration, *, name: str = "duration") -> float:
    """Return a duration in seconds. Raise ConfigError, which calls it `name`, if it is invalid.

    >>> seconds("1h30m"), seconds(2), seconds(timedelta(days=1))
    (5400.0, 2.0, 86400.0)
    """
    match value:
        case timedelta():
            total = value.total_seconds()
        case str():
            total = _parse(value, name)
        case bool():
            raise ConfigError(_explain(value, name))
        case int() | float():
            # Compare before converting: a whole number may be larger than any float.
            total = math.inf if value > _LONGEST else float(value)
        case _:
            raise ConfigError(_explain(value, name))
    if not math.isfinite(total) or not 0 <= total <= _LONGEST:
        raise ConfigError(f"{name} {value!r} must be between 0 and 100 years")
    return total


def optional_seconds(value: Duration | None, *, name: str = "duration") -> float | None:
    return None if value is None else seconds(value, name=name)


def in_words(total: float) -> str:
    """Return a duration for people, in at most two units: "2m 5s".

    >>> in_words(125), in_words(0.25), in_words(90000)
    ('2m 5s', '250ms', '1d 1h')
    """
    if total < 1:
        return f"{total * 1000:.0f}ms"
    if total < 10 and total != int(total):
        return f"{total:.1f}s"
    rest, words = round(total), list[str]()
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            words.append(f"{count}{unit}")
    return " ".join(words[:2])


def _parse(text: str, name: str) -> float:
    stripped = text.strip().lower()
    if not _WHOLE.fullmatch(stripped):
        raise ConfigError(_explain(text, name))
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(stripped))


def _explain(value: object, name: str) -> str:
    return (
        f"{name} {value!r} is not a duration; write it like '90s', '10m', '1h30m', '3d', "
        "as a number of seconds, or as a timedelta"
    )
