"""Limits of queues, tasks and keys: how many run at once, and how many start per time. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from headway.core.keys import By, check_by
from headway.errors import ConfigError

_RATE = re.compile(
    r"(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)?\s*(s|sec|second|m|min|minute|h|hour|d|day)"
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SMOOTH = 0.1
"""A rate without a burst may start at once the jobs it earns in this many seconds. A worker cannot
sleep for shorter times than that."""

MOST = 1_000_000
BY_LIMIT = 0
"""The stored limit of a key whose limit is that of each key of its handler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that holds in the whole fleet.

    `concurrency` is how many jobs run at once. `rate` is how many start per time, evenly spread; after a
    pause, up to `burst` start at once. `key` is a function of the call's arguments: each key then has its
    own limits, and keys take turns. A key with a million jobs does not hold up one with a single job.

    >>> Limit(concurrency=5, rate="100/min", burst=10).per_second
    1.6666666666666667
    """

    concurrency: int | None = None
    rate: str | None = None
    burst: int | None = None
    key: By | None = None

    def __post_init__(self) -> None:
        if self.concurrency is None and self.rate is None:
            raise ConfigError('a limit needs concurrency=, rate= ("100/min"), or both')
        _check_number(self.concurrency, "concurrency", least=0 if self.key is None else 1)
        _check_number(self.burst, "burst", least=1)
        if self.burst is not None and self.rate is None:
            raise ConfigError(f"burst={self.burst} needs a rate; add rate=")
        if self.rate is not None:
            per_second(self.rate)
        if self.key is not None:
            check_by(self.key, "key of a limit")

    @property
    def per_second(self) -> float | None:
        """Starts per second."""
        return None if self.rate is None else per_second(self.rate)

    @property
    def at_once(self) -> int | None:
        """How many may start at once after a long pause."""
        rate = self.per_second
        if rate is None:
            return None
        return self.burst or max(1, math.floor(rate * _SMOOTH))


def as_limit(value: object) -> Limit | None:
    """Return the limit of a task. Raise ConfigError if it is not a Limit."""
    if value is None or isinstance(value, Limit):
        return value
    raise ConfigError(
        f'limit={value!r} is not a Limit; write limit=Limit(concurrency=5, rate="10/s")'
    )


def per_second(rate: str) -> float:
    """Return the starts per second of a rate as people write it.

    >>> per_second("10/s"), per_second("90/min"), per_second("1/10s")
    (10.0, 1.5, 0.1)
    """
    found = _RATE.fullmatch(rate.strip().lower()) if isinstance(rate, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if found is None:
        raise ConfigError(f"invalid rate {rate!r}; write it like '10/s', '100/min' or '1/10s'")
    count, time, unit = found.groups()
    span = float(time or 1) * _UNITS[unit[0]]
    if span <= 0 or not 1e-6 <= float(count) / span <= MOST:
        raise ConfigError(f"rate {rate!r} must be between one per week and a million per second")
    return float(count) / span


def rate_in_words(rate: float) -> str:
    """Return a rate for people, in the unit in which it is a whole number.

    >>> rate_in_words(10.0), rate_in_words(100 / 60), rate_in_words(0.1)
    ('10/s', '100/min', '6/min')
    """
    for unit, span in (("s", 1), ("min", 60), ("h", 3600), ("d", 86400)):
        if abs(rate * span - round(rate * span)) < 1e-6 and round(rate * span) > 0:
            return f"{round(rate * span)}/{unit}"
    return f"{rate:.3g}/s"


def in_words(concurrency: int | None, rate: float | None, burst: int | None) -> str:
    """Return a limit for people, or an empty text if nothing is limited.

    >>> in_words(5, 100 / 60, 10)
    '5 at once, 100/min in bursts of 10'
    """
    words = [] if concurrency is None else [f"{concurrency} at once"]
    if rate is not None:
        bursts = f" in bursts of {burst}" if burst and burst > 1 else ""
        words.append(f"{rate_in_words(rate)}{bursts}")
    return ", ".join(words)


def _check_number(value: int | None, what: str, *, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{what} {value!r} of a limit must be a whole number")
    if not least <= value <= MOST:
        raise ConfigError(f"{what} {value} of a limit must be from {least} to {MOST}")
