"""A worker's metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from headway.core.state import FINISHED, LIVE, State
from headway.engine.health.probe import DatabaseStatus
from headway.engine.health.state import Vitals, alive, is_well

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["gauge", "counter"]
Value = float | bool | None
Labels = Mapping[str, str]

_BY_STATE: tuple[tuple[str, Kind, str, frozenset[State]], ...] = (
    ("queue_jobs", "gauge", "Live jobs of a queue, by state.", LIVE),
    ("queue_jobs_ended_total", "counter", "Jobs of a queue that ended, by state.", FINISHED),
)
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(vitals: Vitals, status: DatabaseStatus) -> str:
    """Return all metrics. Without a database there are only those of the worker itself."""
    return "".join([*_worker(vitals), *_database(status), *_queues(status), *_controls(status)])


def _worker(vitals: Vitals) -> Iterable[str]:
    about = {"version": vitals.version, "schema": vitals.schema, "worker": str(vitals.worker_id)}
    yield _family("worker_info", "gauge", "Facts about this worker.", [(about, 1)])
    settled = [({"verdict": kind}, count) for kind, count in sorted(vitals.settled.items())]
    yield _family("jobs_settled_total", "counter", "Attempts settled here, by verdict.", settled)
    for name, kind, words, value in (
        ("claims_lost_total", "counter", "Claims that were lost before settling.", vitals.lost),
        ("jobs_running", "gauge", "Jobs that run here.", vitals.running),
        ("slots", "gauge", "Slots here, including dedicated ones.", vitals.slots),
        ("verdicts_unsettled", "gauge", "Verdicts not written yet.", vitals.unsettled),
        (
            "job_loop_round_trips_total",
            "counter",
            "Round trips that claim or settle jobs.",
            vitals.round_trips,
        ),
        (
            "job_loop_seconds_total",
            "counter",
            "Total time of those round trips.",
            vitals.round_trip_seconds,
        ),
        (
            "heartbeat_age_seconds",
            "gauge",
            "Time since the last answered heartbeat.",
            vitals.heartbeat_age,
        ),
        ("lease_seconds", "gauge", "The heartbeat age at which jobs are lost.", vitals.lease),
        ("lease_trusted", "gauge", "Whether the worker may claim.", vitals.trusted),
        ("loop_age_seconds", "gauge", "Time since the event loop last ran.", vitals.loop_age),
        ("loop_blocks_total", "counter", "How often the event loop was blocked.", vitals.blocks),
        (
            "loop_blocked_seconds_total",
            "counter",
            "How long the event loop was blocked.",
            vitals.blocked_seconds,
        ),
        (
            "alive",
            "gauge",
            "Whether event loop and heartbeat run, as in /livez.",
            is_well(alive(vitals)),
        ),
        ("listening", "gauge", "Whether the worker receives notifications.", vitals.listening),
        ("leader", "gauge", "Whether this worker is the leader of the fleet.", vitals.leads),
        ("draining", "gauge", "Whether the worker is draining.", vitals.draining),
    ):
        yield _one(name, kind, words, value)  # type: ignore[arg-type]
    failed = [({"service": c.service}, c.failed_in_all) for c in vitals.services]
    failing = [({"service": c.service}, c.failing_for) for c in vitals.services]
    if failed:
        yield _family("service_failures_total", "counter", "Failed turns of a service.", failed)
    yield _any("service_failing_seconds", "How long a service has failed; 0 if it works.", failing)
    own, taken = (
        [({"queue": queue}, pair[part]) for queue, pair in vitals.dedicated.items()]
        for part in (0, 1)
    )
    yield _any("dedicated_slots", "Slots here that are dedicated to a queue.", own)
    yield _any("dedicated_slots_taken", "How many of them are taken.", taken)


def _database(status: DatabaseStatus) -> Iterable[str]:
    yield _one("database_up", "gauge", "Whether the database answered.", status.reached)
    yield _one("schema_fits", "gauge", "Whether the schema fits this library.", status.fits)
    yield _one(
        "database_connect_seconds",
        "gauge",
        "Time to make the newest connection.",
        status.connected_in,
    )
    yield _one("database_ping_seconds", "gauge", "Time of one round trip.", status.answered_in)
    yield _one("clock_skew_seconds", "gauge", "Database clock minus this machine's.", status.skew)


def _queues(status: DatabaseStatus) -> Iterable[str]:
    """Return metrics of the whole fleet: every worker reports the same."""
    if not (queues := status.queues):
        return
    for name, kind, words, states in _BY_STATE:
        labels = sorted(state.label for state in states)
        counts = [
            ({"queue": queue.name, "state": label}, getattr(queue, label))
            for queue in queues
            for label in labels
        ]
        yield _family(name, kind, words, counts)
    ages = [({"queue": q.name}, max(0.0, q.oldest_ready_age or 0.0)) for q in queues]
    words = "How long the oldest ready job of a queue has waited; 0 if none waits."
    yield _family("queue_oldest_ready_seconds", "gauge", words, ages)


def _controls(status: DatabaseStatus) -> Iterable[str]:
    """Return pauses and limits of queues and tasks. Keys are left out: there may be very many."""
    for kind in ("queue", "task"):
        rows = {row.name: row for row in status.controls if row.kind == kind}
        names = {queue.name for queue in status.queues or ()} if kind == "queue" else set[str]()
        paused = [
            ({kind: name}, name in rows and rows[name].paused) for name in sorted(names | set(rows))
        ]
        most = [({kind: n}, r.concurrency) for n, r in rows.items() if r.concurrency is not None]
        rates = [({kind: n}, r.rate) for n, r in rows.items() if r.rate is not None]
        yield _any(f"{kind}_paused", f"Whether the {kind} is paused.", paused)
        yield _any(f"{kind}_limit", "How many of its jobs may run at once, fleet-wide.", most)
        yield _any(f"{kind}_rate_limit", "How many of its jobs may start per second.", rates)


def _one(name: str, kind: Kind, words: str, value: Value) -> str:
    """Return one metric, or an empty text if its value is not known."""
    return "" if value is None else _family(name, kind, words, [({}, value)])


def _any(name: str, words: str, values: Sequence[tuple[Labels, Value]]) -> str:
    """Return a metric, or an empty text if it has no values."""
    return _family(name, "gauge", words, values) if values else ""


def _family(name: str, kind: Kind, words: str, values: Iterable[tuple[Labels, Value]]) -> str:
    name = f"headway_{name}"
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in values]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    """
    >>> _labels({"queue": 'a "b"'})
    '{queue="a \\\\"b\\\\""}'
    """
    if not labels:
        return ""
    pairs = [f'{key}="{text.translate(_ESCAPED)}"' for key, text in labels.items()]
    return f"{{{','.join(pairs)}}}"


def _number(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool | int) else f"{value:.6f}"
