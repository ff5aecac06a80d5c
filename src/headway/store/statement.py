"""A database operation as a value, and the text of its SQL.

`Statement[R]` is the name of an SQL file, its parameters and a reader of its rows. The engine, the
sync and async API and the CLI build the same values, so there is nothing to write twice.

A fragment that several SQL files need is a part: `{part handler}` stands for `sql/parts/handler.sql`. A
part may take one argument, as in `{part handler j}`: it replaces `{of}`, and `{of.}` becomes `j.`, or
nothing without an argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Generic, LiteralString, TypeVar

R = TypeVar("R")
Row = tuple[Any, ...]

_SQL = resources.files("headway.store") / "sql"
_PART = re.compile(r"\{part (\w+)(?: ([^{}]+))?\}")
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement(Generic[R]):
    """`sql/<name>.sql` with `params`. `read` turns its rows into the answer."""

    name: str
    params: Mapping[str, Any]
    read: Callable[[Sequence[Row]], R] = field(repr=False)
    waits_for: str | None = None
    """A description of a lock that it may have to wait for, because another transaction holds it."""
    hints: tuple[tuple[str, int, str], ...] = ()
    """Lanes of which the client notifies workers after its commit (`documents.Hint`)."""
    counted: bool = False
    """It returns no rows on a caller's connection. `read` receives one, the number of rows it changed."""


@cache
def text(name: str, schema: str) -> LiteralString:
    """Return the SQL of `name` for a schema.

    Values travel as parameters only. core/config.py checks that a schema's name is an identifier."""
    return fill(source(name), schema)


@cache
def client_text(name: str, schema: str) -> LiteralString:
    """Return the SQL by which user code runs `name`.

    If `sql/calls` has a file of that name, it calls a function that has the rights of the schema's
    owner. So operators need no right to any table."""
    call = f"calls/{name.rpartition('/')[2]}"
    return text(call if (_SQL / f"{call}.sql").is_file() else name, schema)


@cache
def source(name: str) -> str:
    """Return the text of `sql/<name>.sql` with its parts inlined."""
    return expand((_SQL / f"{name}.sql").read_text("utf-8"))


def expand(sql: str) -> str:
    """Return SQL with its parts inlined, those in an argument of another part first."""
    while (expanded := _PART.sub(_inline, sql)) != sql:
        sql = expanded
    return sql


def _inline(reference: re.Match[str]) -> str:
    name, of = reference.groups()
    part = _COMMENT.sub("", (_SQL / "parts" / f"{name}.sql").read_text("utf-8")).strip()
    return part.replace("{of.}", f"{of}." if of else "").replace("{of}", of or "{of}")


def fill(sql: str, schema: str) -> LiteralString:
    """Return SQL for a schema: `{schema}` is its name in quotes, `{plain}` its name for channels."""
    # The text comes from the package, so it is literal in every sense that matters.
    return sql.replace("{schema}", f'"{schema}"').replace("{plain}", schema)  # type: ignore[return-value, unused-ignore]  # pyright: ignore[reportReturnType]


def count(rows: Sequence[Row]) -> int:
    """Return the number in the first column of the first row."""
    return int(rows[0][0])


def exists(rows: Sequence[Row]) -> bool:
    """Return whether any row came back."""
    return bool(rows)
