"""What every kind of borrowed connection can do for us, and how a wrong one is refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, LiteralString, Protocol

from headway.errors import ConfigError
from headway.store.statement import Row

Params = Mapping[str, Any]


class Lent(Protocol):
    """A sync connection whose transaction is the caller's to end."""

    def rows(self, sql: LiteralString, params: Params) -> Sequence[Row]:
        """The rows of one statement, run in the transaction that is open or that it opens."""
        ...

    def together(self) -> AbstractContextManager[Any]:
        """Makes several statements one: a block of ours where each would commit by itself."""
        ...


class AsyncLent(Protocol):
    """An async connection whose transaction is the caller's to end."""

    async def rows(self, sql: LiteralString, params: Params) -> Sequence[Row]:
        """As `Lent.rows`."""
        ...

    def together(self) -> AbstractAsyncContextManager[Any]:
        """As `Lent.together`."""
        ...


def kinds(module: str, *names: str) -> tuple[type[Any], ...]:
    """These classes of a library, none of them if nobody has imported it: it has no objects then."""
    loaded = sys.modules.get(module)
    found = (getattr(loaded, name, None) for name in names)
    return tuple(kind for kind in found if isinstance(kind, type))


def failures(module: str, *names: str) -> tuple[type[Exception], ...]:
    """These exceptions of a library, for an `except` clause."""
    return tuple(kind for kind in kinds(module, *names) if issubclass(kind, Exception))


def sync_only(conn: object, hint: str = "") -> ConfigError:
    """The refusal of a sync connection where one is awaited."""
    return ConfigError(
        f"conn={conn!r} cannot be awaited; for a sync connection use the call that ends in _sync{hint}"
    )


def async_only(conn: object) -> ConfigError:
    """The refusal of an async connection where none can be awaited."""
    return ConfigError(
        f"conn={conn!r} must be awaited; for an async connection await the call without _sync"
    )


def no_connection(conn: object, *, instead: str) -> ConfigError:
    """The refusal of what makes connections, and is none."""
    return ConfigError(f"conn={conn!r} is not one connection, in one transaction: {instead}")


def closed(conn: object) -> ConfigError:
    """The refusal of a connection that was given back or closed."""
    return ConfigError(f"conn={conn!r} is closed; enqueue before its transaction ends")
