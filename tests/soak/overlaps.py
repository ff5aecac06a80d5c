"""The counts of what ran at once, and in which order: keys, limits, rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from uuid import UUID

from tests.soak.app import (
    NARROW_ROOM,
    SHARED_ROOM,
    TENANT_BURST,
    TENANT_RATE,
    TENANT_ROOM,
)
from tests.soak.counts import Evidence, Findings
from tests.soak.journal import Run

Span = tuple[float, float, UUID]


def _spans(evidence: Evidence, which: Callable[[Run], str | None]) -> dict[str, list[Span]]:
    """When jobs ran under a claim that was theirs, by key.

    A run that outlives its claim is a zombie's from then on: its worker was frozen, or could not be
    reached, past its lease. Nothing can prevent that from outside, and nothing is promised of it.
    """
    spans: dict[str, list[Span]] = defaultdict(list)
    for run in evidence.journal.runs:
        if (key := which(run)) is None:
            continue
        ends = [run.ended, *(at for at in evidence.crashed.get(run.job, ()) if at > run.began)]
        for pid, since, until in evidence.ledger.pauses:
            if pid == run.pid and since <= run.ended and run.began <= until + 1:
                ends.append(since)
        if min(ends) > run.began:
            spans[key].append((run.began, min(ends), run.job))
    return spans


def _most_at_once(spans: list[Span]) -> tuple[int, list[UUID]]:
    """How many ran at once at most, and which."""
    moments = sorted(
        [(began, 1, job) for began, _, job in spans]
        + [(ended, -1, job) for _, ended, job in spans],
        key=lambda moment: moment[:2],
    )
    running: list[UUID] = []
    most: list[UUID] = []
    for _, change, job in moments:
        if change > 0:
            running.append(job)
            most = max(most, list(running), key=len)
        else:
            running.remove(job)
    return len(most), most


def _of(*handlers: str) -> Callable[[Run], str | None]:
    return lambda run: run.key if run.handler in handlers else None


def limits_hold(evidence: Evidence) -> Findings:
    """No key and no limit ever had more running than it may."""
    rules: list[tuple[str, Callable[[Run], str | None], int]] = [
        ("key", _of("shared", "order/charge"), SHARED_ROOM),
        ("ordered key", _of("order/ship"), 1),
        ("account", _of("book"), 1),
        ("narrow", lambda run: "narrow" if run.handler == "narrow" else None, NARROW_ROOM),
        ("tenant", _of("tenant"), TENANT_ROOM),
        ("unique", _of("once"), 1),
        (
            "schedule",
            lambda run: run.key if run.handler == "tick" and run.key != "second" else None,
            1,
        ),
    ]
    for name, which, room in rules:
        for key, spans in _spans(evidence, which).items():
            most, jobs = _most_at_once(spans)
            if most > room:
                yield f"{name} {key!r}: {most} ran at once, {room} may: {[str(job) for job in jobs]}"


def order_holds(evidence: Evidence) -> Findings:
    """The jobs of an ordered key began in the order of their enqueues."""
    began: dict[UUID, float] = {}
    for run in evidence.journal.runs:
        if run.handler == "book":
            began[run.job] = min(run.began, began.get(run.job, run.began))
    for account, jobs in evidence.ledger.order.items():
        ran = [job for job in jobs if job in began]
        for before, after in pairwise(ran):
            if began[before] > began[after]:
                yield f"account {account}: {after} began before {before}"


def rates_hold(evidence: Evidence) -> Findings:
    """In no stretch of time did more of a tenant start than its rate allows."""
    starts: dict[str, list[float]] = defaultdict(list)
    for key, at in evidence.db.execute(
        """select a.input->>'tenant', extract(epoch from s.started_at)::float8
           from archive a join lateral (
             select started_at, claim from attempt where job_id = a.id
             union select a.started_at, a.claim) s on s.started_at is not null
           where a.task = 'tenant'"""
    ):
        starts[key].append(at)
    for key, moments in starts.items():
        moments.sort()
        # A bucket, filled evenly; one token more, because claims are dated by their transactions.
        tokens, last = TENANT_BURST + 1.0, moments[0]
        for moment in moments:
            tokens = min(TENANT_BURST + 1.0, tokens + (moment - last) * TENANT_RATE) - 1
            last = moment
            if tokens < 0:
                yield f"tenant {key!r}: more than {TENANT_RATE}/s started up to {moment:.3f}"
                break


CHECKS: dict[str, Callable[[Evidence], Findings]] = {
    "limits": limits_hold,
    "order": order_holds,
    "rates": rates_hold,
}
