"""What a worker knows in figures, as text that Prometheus and everything like it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from headway.core.state import FINISHED, LIVE, State
from headway.engine.health.probe import Sight
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


def exposition(vitals: Vitals, sight: Sight) -> str:
    """All of it. Of a database that is away it says that, and what the worker knows by itself."""
    return "".join([*_worker(vitals), *_database(sight), *_queues(sight), *_controls(sight)])


def _worker(vitals: Vitals) -> Iterable[str]:
    about = {"version": vitals.version, "schema": vitals.schema, "worker": str(vitals.worker_id)}
    yield _family("worker_info", "gauge", "What this worker is.", [(about, 1)])
    settled = [({"verdict": kind}, count) for kind, count in sorted(vitals.settled.items())]
    yield _family("jobs_settled_total", "counter", "Attempts settled here, by verdict.", settled)
    for name, kind, words, value in (
        ("claims_lost_total", "counter", "Claims that were another's when settled.", vitals.lost),
        ("jobs_running", "gauge", "Jobs under way here.", vitals.running),
        ("slots", "gauge", "How many may be, dedicated slots included.", vitals.slots),
        ("verdicts_unsettled", "gauge", "Verdicts not written yet.", vitals.unsettled),
        (
            "exchange_round_trips_total",
            "counter",
            "Round trips that claim or settle jobs.",
            vitals.round_trips,
        ),
        (
            "exchange_seconds_total",
            "counter",
            "Time those round trips took.",
            vitals.round_trip_seconds,
        ),
        (
            "heartbeat_age_seconds",
            "gauge",
            "Since the last heartbeat that was answered.",
            vitals.heartbeat_age,
        ),
        ("lease_seconds", "gauge", "How long it may be before jobs are lost.", vitals.lease),
        ("lease_trusted", "gauge", "Whether the worker may claim.", vitals.trusted),
        ("loop_age_seconds", "gauge", "Since the event loop last turned.", vitals.loop_age),
        ("loop_blocks_total", "counter", "How often something blocked it.", vitals.blocks),
        (
            "loop_blocked_seconds_total",
            "counter",
            "How long it was blocked.",
            vitals.blocked_seconds,
        ),
        (
            "alive",
            "gauge",
            "Whether loop and heartbeat turn, as /livez says.",
            is_well(alive(vitals)),
        ),
        ("listening", "gauge", "Whether it hears notifications.", vitals.listening),
        ("duty", "gauge", "Whether the fleet's sweeps are this worker's duty.", vitals.on_duty),
        ("draining", "gauge", "Whether it is stopping.", vitals.draining),
    ):
        yield _one(name, kind, words, value)  # type: ignore[arg-type]
    failed = [({"service": c.service}, c.failed_in_all) for c in vitals.services]
    failing = [({"service": c.service}, c.failing_for) for c in vitals.services]
    if failed:
        yield _family(
            "service_failures_total", "counter", "Turns of a service that failed.", failed
        )
    yield _any("service_failing_seconds", "How long a service has failed; 0 if it works.", failing)
    own, taken = (
        [({"queue": queue}, pair[part]) for queue, pair in vitals.dedicated.items()]
        for part in (0, 1)
    )
    yield _any("dedicated_slots", "Slots here that a queue has to itself.", own)
    yield _any("dedicated_slots_taken", "How many of them are taken.", taken)


def _database(sight: Sight) -> Iterable[str]:
    yield _one("database_up", "gauge", "Whether it answered.", sight.reached)
    yield _one("schema_fits", "gauge", "Whether its schema is this library's.", sight.fits)
    yield _one(
        "database_connect_seconds", "gauge", "To make the newest connection.", sight.connected_in
    )
    yield _one("database_ping_seconds", "gauge", "One round trip.", sight.answered_in)
    yield _one("clock_skew_seconds", "gauge", "Its clock ahead of this machine's.", sight.skew)


def _queues(sight: Sight) -> Iterable[str]:
    """Facts of the whole fleet: every worker says the same."""
    if not (queues := sight.queues):
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
    words = "How long its oldest ready job has waited; 0 if none does."
    yield _family("queue_oldest_ready_seconds", "gauge", words, ages)


def _controls(sight: Sight) -> Iterable[str]:
    """Pauses and limits of queues and tasks. Those of keys are left out: there may be very many."""
    for kind in ("queue", "task"):
        said = {row.name: row for row in sight.controls if row.kind == kind}
        names = {queue.name for queue in sight.queues or ()} if kind == "queue" else set[str]()
        paused = [
            ({kind: name}, name in said and said[name].paused) for name in sorted(names | set(said))
        ]
        most = [({kind: n}, r.concurrency) for n, r in said.items() if r.concurrency is not None]
        rates = [({kind: n}, r.rate) for n, r in said.items() if r.rate is not None]
        yield _any(f"{kind}_paused", "Whether nothing of it is claimed.", paused)
        yield _any(f"{kind}_limit", "How many of its jobs may run at once, fleet-wide.", most)
        yield _any(f"{kind}_rate_limit", "How many of them may start per second.", rates)


def _one(name: str, kind: Kind, words: str, value: Value) -> str:
    """One figure, or nothing if it is not known."""
    return "" if value is None else _family(name, kind, words, [({}, value)])


def _any(name: str, words: str, values: Sequence[tuple[Labels, Value]]) -> str:
    """Figures that may well be none: then nothing is said of them."""
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
