"""Translates `%(name)s`, as in our statements, to `$1`, as PostgreSQL numbers parameters.

With asyncpg the server decides the type of each parameter; psycopg derives it from the value. So a cast
is added wherever psycopg would send a type. Text is the exception: psycopg leaves its type open, as a
bare `$1` does. If the statement itself casts a text, it is still sent as text: for `$1::timestamptz`
asyncpg would require a datetime, and for `$1::jsonb` it would use a codec that the caller may have set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

_NAMED = re.compile(r"%\((\w+)\)s(::)?")
_TEXT = "text"
_INTEGERS = (("smallint", 15), ("integer", 31), ("bigint", 63))


def numbered(sql: str, params: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """Return the statement with numbers in place of names, and its values in that order."""
    types = tuple((name, _type(value)) for name, value in params.items())
    text, names = _numbered(sql, types)
    return text, tuple(params[name] for name in names)


@lru_cache(maxsize=256)
def _numbered(sql: str, types: tuple[tuple[str, str | None], ...]) -> tuple[str, tuple[str, ...]]:
    type_of, names = dict(types), list[str]()

    def number(found: re.Match[str]) -> str:
        name, cast = found[1], found[2] or ""
        if name not in names:
            names.append(name)
        type_, place = type_of[name], f"${names.index(name) + 1}"
        if type_ is None or (type_ == _TEXT and not cast):
            return place + cast
        return f"{place}::{type_}{cast}"

    return _NAMED.sub(number, sql), tuple(names)


def _type(value: object) -> str | None:
    match value:
        case None:
            return None
        case str():
            return _TEXT
        case bool():
            return "boolean"
        case int():
            fitting = (name for name, bits in _INTEGERS if -(1 << bits) <= value < 1 << bits)
            return next(fitting, "numeric")
        case float():
            return "double precision"
        case datetime():
            return "timestamptz"
        case _:
            raise TypeError(
                f"{value!r} is not a type that statements use; add it to placeholders.py"
            )
