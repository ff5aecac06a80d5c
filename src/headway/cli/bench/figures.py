"""The figures of a benchmark, and the cause that limits each of them. Pure: it measures nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headway.store.activity import Activity

CLIENT = "client CPU"
SERVER = "server CPU"
COMMITS = "commits"
WAITS = "server waits"
CORES = "busy cores"
NETWORK = "round trips"

ADVICE = {
    CLIENT: "Python is busy: run more processes (`headway worker --processes`), or a faster core",
    SERVER: "PostgreSQL is busy: it needs more or faster cores, or fewer statements (enqueue_many)",
    COMMITS: "commits wait until they are durable: enqueue several jobs in one transaction or call, or "
    "use a faster disk",
    WAITS: "sessions wait for locks or the disk: see the events, and what else the server does",
    CORES: "processes wait for a free core: other programs use the machine, or it has too few cores",
    NETWORK: "neither side is busy: move closer to the server, or send more in each call",
}


@dataclass(slots=True)
class Figure:
    """One measurement: operations, their seconds, and who spent them."""

    name: str
    durations: list[float] = field(default_factory=list[float])
    """Seconds of each operation, where operations were timed one by one."""
    jobs: int = 0
    activity: Activity = field(default_factory=Activity)

    @property
    def rate(self) -> float | None:
        """Return jobs per second, or None if nothing was measured."""
        seconds = self.activity.seconds
        return self.jobs / seconds if seconds and self.jobs else None

    def percentile(self, share: float) -> float | None:
        """Return the duration that this share of operations did not exceed."""
        ordered = sorted(self.durations)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None

    def shares(self) -> dict[str, float]:
        """Return the share of the time that each cause took, largest first.

        Client and server may work at the same time, so the shares can add up to more than 1. Round
        trips are the rest: the time in which neither side did anything.
        """
        activity = self.activity
        if not activity.seconds or not activity.samples:
            return {}
        by_samples = activity.working / activity.samples
        cpu = activity.server_cpu
        found = {
            CLIENT: activity.client_cpu / activity.seconds,
            SERVER: by_samples if cpu is None else cpu / activity.seconds,
            COMMITS: activity.committing / activity.samples,
            WAITS: activity.waiting / activity.samples,
            CORES: (activity.core_wait or 0.0) / activity.seconds,
        }
        found[NETWORK] = max(0.0, 1.0 - sum(found.values()))
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def limit(self) -> str | None:
        """Return the cause that took the most time."""
        return next(iter(self.shares()), None)

    def document(self) -> dict[str, Any]:
        """Return the figure for programs."""
        timed = {"p50_ms": self.percentile(0.5), "p99_ms": self.percentile(0.99)}
        return {
            "jobs": self.jobs,
            "seconds": round(self.activity.seconds, 4),
            "per_second": _rounded(self.rate, 1),
            **{key: _rounded(value and value * 1000, 4) for key, value in timed.items()},
            "limit": self.limit,
            "shares": {cause: round(share, 3) for cause, share in self.shares().items()},
            "waits": dict(self.activity.waits),
        }


@dataclass(slots=True)
class Figures:
    """All figures of a benchmark."""

    round_trip: Figure = field(default_factory=lambda: Figure("round trip, select 1"))
    insert: Figure = field(default_factory=lambda: Figure("bare INSERT"))
    quick_insert: Figure = field(
        default_factory=lambda: Figure("bare INSERT, synchronous_commit = off")
    )
    enqueue: Figure = field(default_factory=lambda: Figure("enqueue, one by one"))
    bulk: Figure = field(default_factory=lambda: Figure("enqueue_many"))
    drain: Figure = field(default_factory=lambda: Figure("drain, one worker"))
    pick_up: Figure = field(default_factory=lambda: Figure("pick-up, from enqueue to handler"))

    @property
    def all(self) -> dict[str, Figure]:
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def commit_wait(self) -> float | None:
        """Return how many seconds a commit waits until it is durable."""
        durable, quick = self.insert.percentile(0.5), self.quick_insert.percentile(0.5)
        return None if durable is None or quick is None else max(0.0, durable - quick)

    @property
    def of_bare(self) -> float | None:
        """Return the rate of enqueues as a share of that of bare INSERTs."""
        enqueue, insert = self.enqueue.rate, self.insert.rate
        return enqueue / insert if enqueue and insert else None

    def document(self) -> dict[str, Any]:
        """Return the figures for programs."""
        return {
            "figures": {name: figure.document() for name, figure in self.all.items()},
            "commit_wait_ms": _rounded(self.commit_wait and self.commit_wait * 1000, 4),
            "enqueue_of_bare": _rounded(self.of_bare, 3),
        }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
