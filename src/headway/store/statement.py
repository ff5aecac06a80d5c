"""A database operation as a value, and the text of its SQL.

`Statement[R]` is the name of an SQL file, its parameters and a reader of its rows. The engine, the
sync and async API and the CLI build the same values, so there is nothing to write twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Generic, LiteralString, TypeVar

R = TypeVar("R")
Row = tuple[Any, ...]

_SQL = resources.files("headway.store") / "sql"


@dataclass(frozen=True, slots=True)
class Statement(Generic[R]):
    """`sql/<name>.sql` with `params`; `read` makes the answer of its rows."""

    name: str
    params: Mapping[str, Any]
    read: Callable[[Sequence[Row]], R] = field(repr=False)
    waits_for: str | None = None
    """What it may wait for that somebody's open transaction has, in words."""


@cache
def text(name: str, schema: str) -> LiteralString:
    """The SQL of `name` for a schema. Values travel as parameters only; the schema's name was
    checked to be a plain identifier (core/config.py)."""
    return fill((_SQL / f"{name}.sql").read_text("utf-8"), schema)


@cache
def client_text(name: str, schema: str) -> LiteralString:
    """Return the SQL by which user code runs `name`: a call of the function that does it with the
    rights of the schema's owner, if `sql/calls` has one, so that operators need no table."""
    call = _SQL / "calls" / f"{name.rpartition('/')[2]}.sql"
    return fill(call.read_text("utf-8"), schema) if call.is_file() else text(name, schema)


def fill(sql: str, schema: str) -> LiteralString:
    """The SQL for a schema: `{schema}` is its name quoted, `{plain}` as it is, to name channels by."""
    # The text is ours, from the package: literal in every sense that matters.
    return sql.replace("{schema}", f'"{schema}"').replace("{plain}", schema)  # type: ignore[return-value, unused-ignore]  # pyright: ignore[reportReturnType]


def count(rows: Sequence[Row]) -> int:
    """The number in the first column of the first row."""
    return int(rows[0][0])


def exists(rows: Sequence[Row]) -> bool:
    """Whether any row came back."""
    return bool(rows)
