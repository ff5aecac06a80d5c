"""Errors of the caller's library. Those that only Headway can explain become Headway's.

They are a schema that does not fit, a unique key that is taken, and a missing right. Every other error
reaches the caller unchanged: the transaction is the caller's, who may know how to handle it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any
from uuid import UUID

from psycopg import errors as pg

from headway.errors import HeadwayError, KeyTaken
from headway.store.faults import KEY_TAKEN, SCHEMA_ERRORS, translate
from headway.store.rights import DENIED


class explained:
    """`with explained(advice):` replaces the library's error with Headway's, if there is one.

    `advice` tells a login without the necessary rights what to do.
    """

    __slots__ = ("_advice",)

    def __init__(self, advice: Callable[[], str]) -> None:
        self._advice = advice

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            ours = _ours(_at_the_root(error), self._advice)
            if ours is not None:
                raise ours from error


def _ours(error: Any, advice: Callable[[], str]) -> HeadwayError | None:
    state = _state(error)
    if state == KEY_TAKEN:
        # asyncpg has the server's message on the error itself, psycopg and psycopg2 in its `diag`.
        diag = getattr(error, "diag", None)
        message, detail = (
            (diag.message_primary, diag.message_detail) if diag else (error.message, error.detail)
        )
        return KeyTaken(message, UUID(detail))
    if state == DENIED:
        return translate(pg.InsufficientPrivilege(str(error)), advice())
    for kind in SCHEMA_ERRORS:
        if state == kind.sqlstate:
            return translate(kind(str(error)))
    return None


def _at_the_root(error: BaseException) -> BaseException:
    """Return the driver's own error, from which SQLAlchemy and Django raise theirs."""
    while (below := getattr(error, "orig", None) or error.__cause__) is not None and _state(below):
        error = below
    return error


def _state(error: BaseException) -> str | None:
    # psycopg2 calls it pgcode.
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else None
