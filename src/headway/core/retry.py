"""Retry policies: which errors are retried, and after how long. Pure: chance is an argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, TypeGuard

from headway.core.duration import Duration, seconds
from headway.errors import ConfigError

Shape = Literal["exponential", "linear", "constant"]
Backoff = Shape | Callable[[int], Duration]

_SHAPES = ("exponential", "linear", "constant")
_LARGEST_EXPONENT = 60  # 2**60 s is longer than every cap; a larger exponent could overflow
_MOST_ATTEMPTS = 32_000  # the column is a smallint
_MOST_CRASHES = 1_000


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy: how many attempts, how far apart, and after which errors.

    `max_attempts` counts the first run too. `backoff` is a shape, or a function of the attempt that
    failed (1 is the first). `base` is the first delay and `cap` the longest. `jitter` takes up to that
    share off each delay. A job is retried after an error of `on` that is not one of `never`. Subclasses
    count in both.

    A job whose process died runs again in isolation and does not lose an attempt. It fails after
    `max_crashes` crashes in a row.

    The default goes on for hours, so that an outage at a provider does not fail every job.

    >>> Retry(max_attempts=3, jitter=0).delay(2, chance=0)
    2.0
    """

    max_attempts: int = 20
    _: KW_ONLY
    backoff: Backoff = "exponential"
    base: Duration = "1s"
    cap: Duration = "1h"
    jitter: float = 0.5
    max_crashes: int = 3
    on: tuple[type[BaseException], ...] = (Exception,)
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if not _is_whole(self.max_attempts) or not 1 <= self.max_attempts <= _MOST_ATTEMPTS:
            raise ConfigError(
                f"max_attempts {self.max_attempts!r} must be a whole number from 1 to "
                f"{_MOST_ATTEMPTS}; 1 means no retry"
            )
        if not _is_whole(self.max_crashes) or not 1 <= self.max_crashes <= _MOST_CRASHES:
            raise ConfigError(
                f"max_crashes {self.max_crashes!r} must be a whole number from 1 to {_MOST_CRASHES}; "
                "1 means no other run after a crash"
            )
        if not callable(self.backoff) and self.backoff not in _SHAPES:
            raise ConfigError(
                f"backoff {self.backoff!r} must be one of {', '.join(_SHAPES)} or a function of "
                "the attempt"
            )
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise ConfigError(f"jitter {self.jitter!r} must be between 0 and 1")
        for name, kinds in (("on", self.on), ("never", self.never)):
            if not isinstance(kinds, tuple) or not all(map(_is_exception, kinds)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"{name}={kinds!r} must be a tuple of exception classes")
        base, cap = seconds(self.base, name="base"), seconds(self.cap, name="cap")
        if base > cap and not callable(self.backoff):
            raise ConfigError(
                f"base {self.base!r} is longer than cap {self.cap!r}, which no delay exceeds; give a "
                "longer cap="
            )

    @classmethod
    def quick(cls) -> Retry:
        """Return the short policy: 5 attempts within about 15 seconds.

        >>> Retry.quick().max_attempts
        5
        """
        return cls(max_attempts=5, cap="1m")

    def covers(self, error: BaseException) -> bool:
        """Return whether the job is tried again after `error`.

        A CancelledError counts as an Exception: a library may raise it, for a connection that was
        closed. A job that the worker stopped does not get here.
        """
        tried = isinstance(error, self.on) or (_is_cancelled(error) and Exception in self.on)
        return tried and not isinstance(error, self.never)

    def delay(self, attempt: int, chance: float) -> float:
        """Return the seconds to wait after `attempt` failed. `chance` is uniform in [0, 1).

        A jitter of 0.5 spreads the delay over 50 to 100 % of its target. Jobs that failed together then
        do not return together. The cap holds for every shape.
        """
        base, cap = seconds(self.base), seconds(self.cap)
        match self.backoff:
            case "exponential":
                target = base * 2.0 ** min(attempt - 1, _LARGEST_EXPONENT)
            case "linear":
                target = base * attempt
            case "constant":
                target = base
            case _:
                wanted = self.backoff(attempt)
                # A number may exceed the longest duration, so the cap comes first.
                beyond = isinstance(wanted, int | float) and wanted > cap
                target = cap if beyond else seconds(wanted, name="backoff")
        target = min(target, cap)
        return target * (1 - self.jitter) + target * self.jitter * chance

    def stored(self) -> dict[str, Any]:
        """Return this policy as JSON, for a job with a policy of its own.

        Raise ConfigError if it has functions or exception classes: a row cannot hold them.
        """
        if callable(self.backoff) or self.on != (Exception,) or self.never:
            raise ConfigError(
                "a retry policy given with using() is stored with the job and cannot hold a "
                "backoff function, on= or never=; put those on the task itself"
            )
        return {
            "backoff": self.backoff,
            "base": seconds(self.base),
            "cap": seconds(self.cap),
            "jitter": self.jitter,
            "max_crashes": self.max_crashes,
        }

    def with_stored(self, stored: Mapping[str, Any]) -> Retry:
        """Return the task's policy with the numbers that are stored with the job."""
        return replace(self, **stored)


def as_retry(value: object, over: Retry | None = None) -> Retry:
    """Return the policy that a user wrote. A number changes only the attempts of `over`.

    >>> policy = as_retry(3, over=Retry(base="1m"))
    >>> policy.max_attempts, policy.base
    (3, '1m')
    """
    over = over or Retry()
    if value is None:
        return over
    if isinstance(value, Retry):
        return value
    if _is_whole(value):
        return replace(over, max_attempts=value)
    raise ConfigError(
        f"retry={value!r} must be a Retry, such as Retry(max_attempts=3), or a number of attempts"
    )


def _is_cancelled(error: BaseException) -> bool:
    # Known by its name: the core imports no event loop.
    return any(kind.__name__ == "CancelledError" for kind in type(error).__mro__)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, float) or _is_whole(value)


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)
