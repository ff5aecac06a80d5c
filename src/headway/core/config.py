"""Every default, in one place, as frozen values that check themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypedDict

from headway.core.address import parse_address
from headway.core.duration import Duration, optional_seconds, seconds
from headway.core.names import check_name
from headway.errors import ConfigError

DEFAULT_QUEUE = "default"
DEFAULT_SCHEMA = "headway"
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
STOP_GRACE = "5s"
"""How long a plain function may look at `ctx.cancelled` before it is interrupted."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_PRIORITIES = range(-32_768, 32_768)
_MOST_SLOTS = 100_000
_LARGEST_BATCH = 10_000
_SHORTEST_POLL = 0.001


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


CleanUp = Literal["stale", "manual", "all"]
"""What becomes of a schedule that code declared and declares no more: it is removed when no worker that
lives declares it, never, or as soon as a worker starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """What `Headway(...)` takes, beside its retention and its workers' options."""

    database_url: str | None = None
    """Where the database is, `dsn` in code; none means an embedded server."""
    schema: str = DEFAULT_SCHEMA
    notify: bool = True
    """Whether LISTEN and NOTIFY are used."""
    pool_size: int = 10
    """The most connections for what is enqueued and looked up."""
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    """The largest input, and the largest result, of a job."""
    local: str | Path = ".headway"
    """Where an embedded server keeps its data."""
    embedded: bool = True
    """Whether an embedded server may be used if no database is named; false in profile production."""
    name: str | None = None
    """The app's, which its schedules bear: for several apps in one schema."""
    schedules: CleanUp = "stale"
    """What becomes of schedules that the code declared and declares no more."""

    def __post_init__(self) -> None:
        check_schema(self.schema)
        if self.database_url == "":
            raise ConfigError(
                "database_url is empty; leave it out, or write none, for an embedded one"
            )
        if self.name is not None:
            check_name(self.name, "name")
        for name in ("pool_size", "max_payload_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} {getattr(self, name)} must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long finished jobs are kept, at least: partitions of whole days, months or years are dropped.
    None deletes a job at once when it ends."""

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
    dedicated: Mapping[str, int]
    order: Literal["fair", "strict"]
    concurrency: int
    lease: Duration
    grace: Duration
    poll: Duration
    poll_alone: Duration
    listen: bool
    processes: int
    isolation: int
    batch: int
    transactions: int
    health: str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker behaves. Durations are as everywhere: "30s", 30, timedelta(seconds=30)."""

    queues: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Queues to serve, each with its weight, "*" for whatever others there are. Where neither this nor
    `dedicated` names any: all that the app's tasks name."""
    dedicated: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Queues to serve with slots of their own, so many each, beside those that the others share."""
    order: Literal["fair", "strict"] = "fair"
    """"fair": queues take turns by weight. "strict": in the order given, the next only while those
    before it are empty."""
    concurrency: int = 100
    """Slots that queues share: how many of their jobs run at once in this process."""
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
    isolation: int = 4
    """The most jobs that run at once in a process of their own because their process died before."""
    batch: int = 500
    """The most jobs claimed, and the most verdicts settled, in one statement."""

    transactions: int = 10
    """The most connections for handlers with transaction=True; others of them wait for one."""
    health: str | int | None = None
    """Where it answers /livez, /readyz and /metrics: "0.0.0.0:8080", or a port on this machine."""

    def __post_init__(self) -> None:
        if self.transactions < 1:
            raise ConfigError(f"transactions {self.transactions} must be at least 1")
        if not 1 <= self.concurrency <= _MOST_SLOTS:
            raise ConfigError(f"concurrency {self.concurrency} must be from 1 to {_MOST_SLOTS}")
        if not 1 <= self.batch <= _LARGEST_BATCH:
            raise ConfigError(f"batch {self.batch} must be from 1 to {_LARGEST_BATCH}")
        if self.isolation < 1:
            raise ConfigError(f"isolation {self.isolation} must be at least 1")
        if self.processes < 0:
            raise ConfigError(f"processes {self.processes} must be 0 (one per core) or more")
        if self.health is not None:
            parse_address(self.health)
        if seconds(self.lease, name="lease") < 1:
            raise ConfigError(f"lease {self.lease!r} must be at least a second")
        seconds(self.grace, name="grace")
        for name in ("poll", "poll_alone"):
            if seconds(getattr(self, name), name=name) < _SHORTEST_POLL:
                raise ConfigError(
                    f"{name} {getattr(self, name)!r} must be at least {_SHORTEST_POLL * 1000:g} ms"
                )
        for queue, weight in self.queues.items():
            check_name(queue, "queue")
            if weight < 1:
                raise ConfigError(f"queue {queue!r} has weight {weight}; it must be at least 1")
        for queue, slots in self.dedicated.items():
            check_name(queue, "queue")
            if not 1 <= slots <= _MOST_SLOTS:
                raise ConfigError(f"queue {queue!r} has {slots} slots, not 1 to {_MOST_SLOTS}")
            if queue in self.queues:
                raise ConfigError(
                    f"queue {queue!r} has a weight and slots of its own; give one of them"
                )
            if queue == "*":
                raise ConfigError("slots of its own are for a queue with a name, not for '*'")
        if self.order not in ("fair", "strict"):
            raise ConfigError(f"order {self.order!r} must be fair or strict")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """How `headway worker` is to be run."""

    processes: int = 1
    """Worker processes; more than one are kept by a supervisor."""

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ConfigError(f"processes {self.processes} must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What `headway worker` says on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthOptions:
    """What `headway health` holds to be healthy."""

    max_wait: Duration | None = None
    """The longest that a ready job may wait in a queue that is not paused; none means any time."""

    def __post_init__(self) -> None:
        optional_seconds(self.max_wait, name="max_wait")
