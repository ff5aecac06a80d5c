"""The tables of hostile inputs share these: the world that calls are made in, and the shape of a case."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headway import Headway, Job, Task
from headway.errors import ConfigError

NAN, INFINITY = float("nan"), float("inf")
LONG, STEERING = "x" * 201, "a\x9b31m"
NAIVE = datetime(2030, 1, 1)
MISSING = "0189aaaa-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Gives:
    """The call works, and returns this."""

    value: object


@dataclass
class World:
    """An app with two tasks: `greet(number, extra)`, and `other()`."""

    app: Headway
    greet: Task[..., Any]
    other: Task[..., Any]

    @functools.cached_property
    def job(self) -> Job[Any]:
        return self.greet.enqueue_sync(1)


Call = Callable[[World], object]
Cases = dict[str, tuple[Call, type[Exception] | Gives]]


class Thing:
    """An object that nothing is made for."""

    def __repr__(self) -> str:
        return "Thing()"


def each(what: str, call: Callable[..., object], wrong: dict[str, list[Any]]) -> Cases:
    """A case for each value of each option; all of them are refused as ConfigError."""
    return {
        f"{what}({option} {place}: {type(value).__name__} {str(value)[:30]!r})": (
            functools.partial(call, **{option: value}),
            ConfigError,
        )
        for option, values in wrong.items()
        for place, value in enumerate(values)
    }
