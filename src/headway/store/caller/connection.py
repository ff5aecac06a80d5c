"""The interface of callers' connections, and the errors for unsuitable ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, LiteralString, Protocol

from headway.errors import ConfigError
from headway.store.statement import Row

Params = Mapping[str, Any]


class CallerConnection(Protocol):
    """A sync connection whose transaction the caller ends."""

    def rows(self, sql: LiteralString, params: Params) -> Sequence[Row]:
        """Return the rows of one statement, run in the open transaction or in one that it opens."""
        ...

    def count(self, sql: LiteralString, params: Params) -> int:
        """Return the number of rows that one statement changed. It returns no rows itself."""
        ...

    def together(self) -> AbstractContextManager[Any]:
        """Make several statements atomic, with a transaction block if each would commit by itself."""
        ...


class AsyncCallerConnection(Protocol):
    """An async connection whose transaction the caller ends."""

    async def rows(self, sql: LiteralString, params: Params) -> Sequence[Row]:
        """Return the rows of one statement, like `CallerConnection.rows`."""
        ...

    async def count(self, sql: LiteralString, params: Params) -> int:
        """Return the number of rows that one statement changed, like `CallerConnection.count`."""
        ...

    def together(self) -> AbstractAsyncContextManager[Any]:
        """Make several statements atomic, like `CallerConnection.together`."""
        ...


def kinds(module: str, *names: str) -> tuple[type[Any], ...]:
    """Return these classes of a library; none if it is not imported, because it has no objects then."""
    loaded = sys.modules.get(module)
    found = (getattr(loaded, name, None) for name in names)
    return tuple(kind for kind in found if isinstance(kind, type))


def failures(module: str, *names: str) -> tuple[type[Exception], ...]:
    """Return these exceptions of a library, for an `except` clause."""
    return tuple(kind for kind in kinds(module, *names) if issubclass(kind, Exception))


def sync_only(conn: object, hint: str = "") -> ConfigError:
    """Return the error for a sync connection in an async call."""
    return ConfigError(
        f"conn={conn!r} is a sync connection in an async call; use the call that ends in _sync{hint}"
    )


def async_only(conn: object) -> ConfigError:
    """Return the error for an async connection in a sync call."""
    return ConfigError(
        f"conn={conn!r} is an async connection in a sync call; await the call without _sync"
    )


def no_connection(conn: object, *, instead: str) -> ConfigError:
    """Return the error for an object that makes connections and is not one."""
    return ConfigError(f"conn={conn!r} is not a connection in a transaction; {instead}")


def closed(conn: object) -> ConfigError:
    """Return the error for a connection that was given back or closed."""
    return ConfigError(f"conn={conn!r} is closed; enqueue before its transaction ends")
