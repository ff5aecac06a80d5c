"""Every default, in one place, as frozen values that check themselves."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypedDict

from headway.core.duration import Duration, optional_seconds, seconds
from headway.errors import ConfigError

DEFAULT_QUEUE = "default"
DEFAULT_SCHEMA = "headway"
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024

_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_PRIORITIES = range(-32_768, 32_768)


def check_name(value: str, what: str) -> str:
    """A queue's or task's name: any printable text of up to 200 characters."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or value != value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"{what} {value!r} must be 1 to 200 printable characters without spaces at its ends"
        )
    return value


def check_schema(value: str) -> str:
    """A schema's name; kept plain so that it never needs quoting and fits channel names."""
    if not _SCHEMA.fullmatch(value):
        raise ConfigError(
            f"schema {value!r} must be up to 48 of a-z, 0-9 and _, and start with a letter or _"
        )
    return value


def check_priority(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in _PRIORITIES:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"priority {value!r} must be a whole number from -32768 to 32767")
    return value


def database_url(given: str | None) -> str | None:
    """The DSN to use: the one given, else from the environment, else none (an embedded server)."""
    return given or os.environ.get("HEADWAY_DATABASE_URL") or os.environ.get("DATABASE_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long finished jobs are kept, at least: partitions of whole days are dropped. None deletes a job
    at once when it ends."""

    succeeded: Duration | None = "7d"
    failed: Duration | None = "30d"
    """Failed, cancelled and expired jobs."""

    def __post_init__(self) -> None:
        for name in ("succeeded", "failed"):
            optional_seconds(getattr(self, name), name=f"retention of {name} jobs")

    @property
    def succeeded_seconds(self) -> float | None:
        return optional_seconds(self.succeeded)

    @property
    def failed_seconds(self) -> float | None:
        return optional_seconds(self.failed)


class WorkerSettings(TypedDict, total=False):
    """The fields of `WorkerOptions` as keyword arguments, for functions that pass them on."""

    queues: Mapping[str, int]
    concurrency: int
    lease: Duration
    grace: Duration
    poll: Duration
    poll_alone: Duration
    listen: bool
    processes: int
    batch: int
    transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves. Durations are as everywhere: "30s", 30, timedelta(seconds=30)."""

    queues: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Queues to serve, each with its weight; empty means all that the app's tasks name."""
    concurrency: int = 100
    """Slots: how many jobs run at once in this process."""
    lease: Duration = "30s"
    """How long a worker may go unheard before its jobs are given to others."""
    grace: Duration = "30s"
    """How long a stopping worker lets running jobs finish."""
    poll: Duration = "5s"
    """The slow poll behind LISTEN."""
    poll_alone: Duration = "250ms"
    """The poll when LISTEN does not work or is turned off."""
    listen: bool = True
    processes: int = 0
    """Processes for tasks with executor="process"; 0 means one per core."""
    batch: int = 500
    """The most jobs claimed, and the most verdicts settled, in one statement."""

    transactions: int = 10
    """The most connections for handlers with transaction=True; others of them wait for one."""

    def __post_init__(self) -> None:
        if self.transactions < 1:
            raise ConfigError(f"transactions {self.transactions} must be at least 1")
        if self.concurrency < 1:
            raise ConfigError(f"concurrency {self.concurrency} must be at least 1")
        if self.batch < 1:
            raise ConfigError(f"batch {self.batch} must be at least 1")
        if seconds(self.lease, name="lease") < 1:
            raise ConfigError(f"lease {self.lease!r} must be at least a second")
        for name in ("grace", "poll", "poll_alone"):
            seconds(getattr(self, name), name=name)
        for queue, weight in self.queues.items():
            check_name(queue, "queue")
            if weight < 1:
                raise ConfigError(f"queue {queue!r} has weight {weight}; it must be at least 1")
