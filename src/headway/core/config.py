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
"""How long a plain function has to notice `ctx.cancelled` before it is interrupted."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_PRIORITIES = range(-32_768, 32_768)
_MOST_SLOTS = 100_000
_LARGEST_BATCH = 10_000
_SHORTEST_POLL = 0.001


def check_schema(value: str) -> str:
    """Return the name of a schema. It needs no quoting, and channel names fit it.

    Raise ConfigError for another name.
    """
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
"""When a schedule is removed that the code no longer declares: when no live worker declares it, never, or
as soon as a worker starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """The options of `Headway(...)`, without its retention and the options of its workers."""

    database_url: str | None = None
    """The address of the database, `dsn` in code. None means an embedded server."""
    schema: str = DEFAULT_SCHEMA
    notify: bool = True
    """Whether LISTEN and NOTIFY are used."""
    pool_size: int = 10
    """The most connections for enqueues and queries."""
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    """The most bytes of a job's input, and of its result."""
    local: str | Path = ".headway"
    """Where an embedded server keeps its data."""
    embedded: bool = True
    """Whether an embedded server may be used if no database is given. False in profile production."""
    name: str | None = None
    """The name of the app, stored with its schedules. Needed for several apps in one schema."""
    schedules: CleanUp = "stale"
    """When schedules are removed that the code no longer declares."""

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


Keep = Duration | Literal["forever", "none"]
"""How long a finished job is kept. "none" deletes it at once."""

_FOREVER = "100y"


def keep_seconds(value: Keep, *, name: str = "keep") -> float | None:
    """Return the seconds for which a finished job is kept; none if it is deleted at once.

    >>> keep_seconds("7d"), keep_seconds("none")
    (604800.0, None)
    """
    if value == "none":
        return None
    if value == "forever":
        return seconds(_FOREVER)
    try:
        return seconds(value, name=name)
    except ConfigError as error:
        raise ConfigError(
            f"{error}; 'forever' keeps jobs for good, 'none' deletes them at once"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long finished jobs are kept, by how they ended. None means not set.

    A task's rules come first, then the app's. Jobs may stay for a while longer: partitions of whole
    days, months or years are dropped.
    """

    succeeded: Keep | None = None
    failed: Keep | None = None
    """Failed, cancelled and expired jobs."""

    def __post_init__(self) -> None:
        for name in ("succeeded", "failed"):
            if (value := getattr(self, name)) is not None:
                keep_seconds(value, name=name)

    def over(self, other: Retention) -> Retention:
        """Return these rules, with those of `other` where these are not set."""
        return Retention(
            succeeded=other.succeeded if self.succeeded is None else self.succeeded,
            failed=other.failed if self.failed is None else self.failed,
        )

    @property
    def succeeded_seconds(self) -> float | None:
        """None if a job is deleted at once."""
        rules = self.over(_DEFAULT_RETENTION)
        assert rules.succeeded is not None, "the default is set"
        return keep_seconds(rules.succeeded)

    @property
    def failed_seconds(self) -> float | None:
        """None if a job is deleted at once."""
        rules = self.over(_DEFAULT_RETENTION)
        assert rules.failed is not None, "the default is set"
        return keep_seconds(rules.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """How long an app keeps finished jobs, unless a task says otherwise."""

    succeeded: Keep = "7d"
    failed: Keep = "30d"
    """Failed, cancelled and expired jobs."""

    def __post_init__(self) -> None:
        keep_seconds(self.succeeded, name="succeeded")
        keep_seconds(self.failed, name="failed")

    def rules(self) -> Retention:
        return Retention(succeeded=self.succeeded, failed=self.failed)


_DEFAULT_RETENTION = RetentionOptions().rules()


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
    """The options of a worker. Durations may be "30s", 30 or timedelta(seconds=30)."""

    queues: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Queues to serve, each with its weight. "*" is every other queue. If neither this nor `dedicated`
    names a queue, the worker serves all queues of the app's tasks."""
    dedicated: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Queues with slots of their own, and how many. The other queues share `concurrency`."""
    order: Literal["fair", "strict"] = "fair"
    """"fair": queues take turns by weight. "strict": a queue is served only while all queues before it
    are empty."""
    concurrency: int = 100
    """Slots that queues share: how many of their jobs run at once in this process."""
    lease: Duration = "30s"
    """How long a worker may be silent before other workers take its jobs."""
    grace: Duration = "30s"
    """How long a stopping worker lets running jobs finish."""
    poll: Duration = "5s"
    """How often a worker polls while LISTEN works."""
    poll_alone: Duration = "250ms"
    """How often a worker polls while LISTEN does not work or is off."""
    listen: bool = True
    processes: int = 0
    """Processes for tasks with executor="process"; 0 means one per core."""
    isolation: int = 4
    """The most jobs that run at once in isolation, because a process died while they ran."""
    batch: int = 500
    """The most jobs claimed, and the most verdicts settled, in one statement."""

    transactions: int = 10
    """The most connections for handlers with transaction=True. Further handlers wait for one."""
    health: str | int | None = None
    """The address of /livez, /readyz and /metrics: "0.0.0.0:8080", or a port on this machine."""

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
    """The options of `headway worker` that are not those of one worker."""

    processes: int = 1
    """Worker processes. A supervisor runs them if there is more than one."""

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ConfigError(f"processes {self.processes} must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The log of `headway worker`, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    config: str | Path | None = None
    """A file for `logging.config` in place of these two: .json or .toml with a dictionary, or .ini."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthOptions:
    """The limits of `headway health`."""

    max_wait: Duration | None = None
    """The longest time that a ready job may wait in a queue that is not paused. None means any time."""

    def __post_init__(self) -> None:
        optional_seconds(self.max_wait, name="max_wait")
