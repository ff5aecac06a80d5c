"""Keys of jobs: unique keys, and concurrency keys that limit how many jobs run at once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Protocol, cast

from headway.core.duration import Duration, seconds
from headway.core.names import LONGEST_FULL_KEY, LONGEST_NAME, is_printable
from headway.errors import ConfigError, InvalidInput


class _OfTheFirst(Protocol):
    """Tells type checkers what `lambda tenant, **_: tenant` takes."""

    def __call__(self, first: Any, /, **others: Any) -> str | None: ...


By = str | _OfTheFirst | Callable[..., str | None]
"""A key, or a function of the call's arguments (by name) that returns a key, or None for no key."""

Policy = Literal["skip", "replace", "reject"]
Scope = Literal["unfinished", "waiting"]

_LARGEST_LIMIT = 32_000  # the column is a smallint


@dataclass(frozen=True, slots=True)
class Key:
    """A concurrency key: at most `limit` jobs with the same key run at once in the whole fleet.

    `ordered` runs them one after another in the order in which they were enqueued. Retries keep the
    order: a job that waits for its next attempt holds up the jobs after it.

    >>> Key(lambda account, **_: f"account-{account}", ordered=True).limit
    1
    """

    key: By
    _: KW_ONLY
    limit: int = 1
    ordered: bool = False

    def __post_init__(self) -> None:
        check_by(self.key, "concurrency_key")
        if isinstance(self.limit, bool) or not isinstance(self.limit, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"limit {self.limit!r} of a key must be a whole number")
        if not 1 <= self.limit <= _LARGEST_LIMIT:
            raise ConfigError(f"limit {self.limit} of a key must be from 1 to {_LARGEST_LIMIT}")
        if not isinstance(self.ordered, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"ordered={self.ordered!r} of a key must be True or False")
        if self.ordered and self.limit != 1:
            raise ConfigError(
                f"limit {self.limit} of an ordered key must be 1: it runs one job at a time"
            )


@dataclass(frozen=True, slots=True)
class Unique:
    """A unique key: Headway does not make a second job of the same task and key.

    `policy` says what happens instead. "skip" returns the existing job. "replace" gives the existing job
    the new input, delay and priority. "reject" raises `KeyTaken`.

    `scope` says how long a job holds its key: while it is "unfinished", or "waiting" (until its first
    claim). With `period`, it holds the key for that time from its creation, even if it ends earlier.
    Only a waiting job can be replaced.

    >>> Unique("nightly", policy="replace").scope
    'waiting'
    """

    key: By
    _: KW_ONLY
    policy: Policy = "skip"
    scope: Scope = "unfinished"
    period: Duration | None = None

    def __post_init__(self) -> None:
        check_by(self.key, "unique")
        if self.policy not in ("skip", "replace", "reject"):
            raise ConfigError(f"policy {self.policy!r} must be skip, replace or reject")
        if self.scope not in ("unfinished", "waiting"):
            raise ConfigError(f"scope {self.scope!r} must be unfinished or waiting")
        if self.period is not None:
            if seconds(self.period, name="period") <= 0:
                raise ConfigError(f"period {self.period!r} of a unique key must be more than 0")
            if self.policy == "replace":
                raise ConfigError(
                    f"a unique key with period={self.period!r} cannot have policy 'replace', because "
                    "its job may have ended; use skip or reject"
                )
        if self.policy == "replace":
            object.__setattr__(self, "scope", "waiting")


def as_key(value: By | Key | None) -> Key | None:
    """Return a concurrency key from any form that users may write."""
    return value if value is None or isinstance(value, Key) else Key(value)


def as_unique(value: By | Unique | None) -> Unique | None:
    """Return a unique key from any form that users may write."""
    return value if value is None or isinstance(value, Unique) else Unique(value)


def name(by: By, arguments: Mapping[str, Any], what: str) -> str | None:
    """Return the key of one call, or None if its function returns None."""
    found: str | None = cast("Callable[..., str | None]", by)(**arguments) if callable(by) else by
    if found is None:
        return None
    if not is_printable(found, LONGEST_NAME):
        raise InvalidInput(f"{what} {found!r} must be 1 to 200 printable characters")
    return found


def check_full_name(key: object) -> None:
    """Raise ConfigError if a stored key is invalid. The key of a limit begins with its handler."""
    if not is_printable(key, LONGEST_FULL_KEY):
        raise ConfigError(
            f"key {str(key)[:220]!r} must be printable text; write `task/key` for a key of a limit"
        )


def check_by(by: object, what: str) -> None:
    if not callable(by) and not is_printable(by, LONGEST_NAME):
        raise ConfigError(
            f"{what} {by!r} must be text of 1 to 200 printable characters, or a function of the "
            "call's arguments that returns it"
        )
