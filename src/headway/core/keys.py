"""Keys of jobs: what may be there only once, and what may run only so many at a time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from headway.core.duration import Duration, seconds
from headway.core.names import LONGEST_FULL_KEY, LONGEST_NAME, is_printable
from headway.errors import ConfigError, InvalidInput


class _OfTheFirst(Protocol):
    """For type checkers, who want to know what `lambda tenant, **_: tenant` takes."""

    def __call__(self, first: Any, /, **others: Any) -> str | None: ...


By = str | _OfTheFirst | Callable[..., str | None]
"""A key as it is, or a function of the call's arguments (by name) that returns it; none for no key."""

Policy = Literal["skip", "replace", "reject"]
Scope = Literal["unfinished", "waiting"]

_LARGEST_LIMIT = 32_000  # the column is a smallint


@dataclass(frozen=True, slots=True)
class Key:
    """A concurrency key: at most `limit` jobs of the same key run at once, anywhere in the fleet.

    `ordered` runs them one after another in the order in which they were enqueued, also through
    retries: one that waits for its next attempt holds up those behind it.

    >>> Key(lambda account, **_: f"account-{account}", ordered=True).limit
    1
    """

    by: By
    limit: int = 1
    ordered: bool = False

    def __post_init__(self) -> None:
        check_by(self.by, "concurrency_key")
        if isinstance(self.limit, bool) or not isinstance(self.limit, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"limit {self.limit!r} of a key must be a whole number")
        if not 1 <= self.limit <= _LARGEST_LIMIT:
            raise ConfigError(f"limit {self.limit} of a key must be from 1 to {_LARGEST_LIMIT}")
        if self.ordered and self.limit != 1:
            raise ConfigError("an ordered key runs one job at a time; leave its limit at 1")


@dataclass(frozen=True, slots=True)
class Unique:
    """A unique key: a second job of the same task and key is not made.

    `policy` says what becomes of the second: "skip" returns the job that is there, "replace" gives
    that job its input, delay and priority, "reject" raises `KeyTaken`. The key is taken while the
    job is `scope`: "unfinished", or "waiting" (until it is first claimed); or, with `period`, for so
    long from its making, whatever becomes of it. Only a job that waits can be replaced.

    >>> Unique("nightly", policy="replace").scope
    'waiting'
    """

    by: By
    policy: Policy = "skip"
    scope: Scope = "unfinished"
    period: Duration | None = None

    def __post_init__(self) -> None:
        check_by(self.by, "unique")
        if self.policy not in ("skip", "replace", "reject"):
            raise ConfigError(f"policy {self.policy!r} must be skip, replace or reject")
        if self.scope not in ("unfinished", "waiting"):
            raise ConfigError(f"scope {self.scope!r} must be unfinished or waiting")
        if self.period is not None:
            if seconds(self.period, name="period") <= 0:
                raise ConfigError("the period of a unique key must be longer than nothing")
            if self.policy == "replace":
                raise ConfigError(
                    "a unique key with a period cannot replace: its job may have ended"
                )
        if self.policy == "replace":
            object.__setattr__(self, "scope", "waiting")


def as_key(value: By | Key | None) -> Key | None:
    """A concurrency key as users may write it."""
    return value if value is None or isinstance(value, Key) else Key(value)


def as_unique(value: By | Unique | None) -> Unique | None:
    """A unique key as users may write it."""
    return value if value is None or isinstance(value, Unique) else Unique(value)


def name(by: By, arguments: Mapping[str, Any], what: str) -> str | None:
    """The key of one call; none if its function says so."""
    found: str | None = cast("Callable[..., str | None]", by)(**arguments) if callable(by) else by
    if found is None:
        return None
    if not is_printable(found, LONGEST_NAME):
        raise InvalidInput(f"{what} {found!r} must be 1 to 200 printable characters")
    return found


def check_full_name(key: object) -> None:
    """A key as it is kept: that of a limit has its handler before it."""
    if not is_printable(key, LONGEST_FULL_KEY):
        raise ConfigError(
            f"key {str(key)[:220]!r} must be text of printable characters; `task/key` of a limit"
        )


def check_by(by: object, what: str) -> None:
    if not callable(by) and not is_printable(by, LONGEST_NAME):
        raise ConfigError(
            f"{what} {by!r} must be text of 1 to 200 printable characters, or a function of the "
            "call's arguments that returns it"
        )
