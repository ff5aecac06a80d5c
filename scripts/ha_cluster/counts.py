"""Counts of lost, doubled, cancelled and left jobs in one database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import psycopg

from ha_cluster.app import STEPS
from ha_cluster.faults import Struck
from ha_cluster.load import Load

Values = dict[str, int | float]

NEVER = (
    "settled twice",
    "cancelled by nobody",
    "failed for good",
    "stuck",
    "effects missing",
    "effects doubled",
    "effects without a job",
    "occurrences missing",
    "occurrences doubled",
    "processes that failed",
)
"""Counts that must be zero, whatever the replication."""
LOST = "lost"
"""The count that must be zero with synchronous replication."""

_QUERIES = {
    "settled twice": """
        select count(*) from (select id from headway.jobs group by id having count(*) > 1) twice
    """,
    "cancelled by nobody": "select count(*) from headway.jobs where state = 'cancelled'",
    "failed for good": "select count(*) from headway.jobs where state in ('failed', 'expired')",
    "attempts that a fault cost": "select count(*) from headway.attempt where error is not null",
    # No worker is left. A tick that nobody has claimed yet is not stuck.
    "stuck": """
        select count(*) from headway.jobs
        where state = 'running' or finished_at is null and task <> 'tick'
    """,
    "effects doubled": """
        select count(*) from (select from effect group by job_id, step having count(*) > 1) doubled
    """,
    "effects without a job": """
        select count(distinct job_id) from effect e
        where not exists (select from headway.jobs j where j.id = e.job_id)
    """,
}
_SUCCEEDED = "select id::text, task from headway.jobs where state = 'succeeded'"
_EFFECTS = "select job_id::text, count(distinct step) from effect group by 1"
_OCCURRENCES = """
select (headers ->> 'occurrence')::timestamptz, count(*) from headway.jobs
where headers ->> 'schedule' = 'tick' group by 1 order by 1
"""
_MOMENTS = "select extract(epoch from at)::float8 from effect order by at"
_EFFECTS_OF = {"tx": 1, "tick": 1, "f3": len(STEPS)}


def count(load: Load, struck: Sequence[Struck]) -> Values:
    """Return every count of one database, once its workers and producers have ended."""
    ended_wrongly = load.ended_wrongly()
    calls = load.calls()
    acknowledged = {call["id"]: call for call in calls if "id" in call}
    with psycopg.connect(load.direct, autocommit=True) as conn:
        known = {row[0] for row in conn.execute("select id::text from headway.jobs")}
        values: Values = {
            "acknowledged": len(acknowledged),
            LOST: len(acknowledged.keys() - known),
            **{name: _number(conn, query) for name, query in _QUERIES.items()},
            **_effects_missing(conn, load),
            **_occurrences(conn),
        }
        moments = [row[0] for row in conn.execute(_MOMENTS)]
    values["processes that failed"] = ended_wrongly
    values["errors of producers"] = sum("error" in call for call in calls)
    values["longest enqueue, s"] = _longest(calls)
    for at, one in enumerate(struck):
        until = struck[at + 1].began if at + 1 < len(struck) else float("inf")
        values[f"gap at {one.name}, s"] = _gap(moments, one.began, until)
    return values


def too_few(values: Values, seconds: float) -> list[str]:
    """Return the counts that are too small for a proof: without jobs nothing can be lost."""
    least = {"acknowledged": seconds, "occurrences": seconds / 2, "effects": seconds}
    return [name for name, number in least.items() if values[name] < number]


def wrong(values: Values, *, synchronous: bool) -> list[str]:
    """Return the counts that must be zero and are not."""
    return [name for name in (*NEVER, *([LOST] if synchronous else [])) if values[name]]


def _number(conn: psycopg.Connection[Any], query: str) -> int:
    row = conn.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _effects_missing(conn: psycopg.Connection[Any], load: Load) -> Values:
    """Of jobs that succeeded; those of `plain` are in a file, and may be there twice."""
    effects: dict[str, int] = dict(conn.execute(_EFFECTS).fetchall())
    lines = Counter(load.plain.read_text().split() if load.plain.exists() else ())
    missing = 0
    for job_id, task in conn.execute(_SUCCEEDED):
        found, wanted = (lines[job_id], 1) if task == "plain" else (effects.get(job_id, 0), None)
        missing += found < (wanted or _EFFECTS_OF[task])
    return {
        "effects": sum(effects.values()),
        "effects missing": missing,
        "plain handlers that ran twice": sum(times > 1 for times in lines.values()),
    }


def _occurrences(conn: psycopg.Connection[Any]) -> Values:
    """Of a schedule that is due every second, from its first occurrence to its last."""
    rows = conn.execute(_OCCURRENCES).fetchall()
    missing = sum(
        round((later - before) / timedelta(seconds=1)) - 1
        for (before, _), (later, _) in pairwise(rows)
    )
    return {
        "occurrences": len(rows),
        "occurrences missing": missing,
        "occurrences doubled": sum(times > 1 for _, times in rows),
    }


def _longest(calls: Sequence[dict[str, Any]]) -> float:
    return round(max((call["took"] for call in calls), default=0.0), 1)


def _gap(moments: Sequence[float], since: float, until: float) -> float:
    """Return the longest time without an effect after a fault and before the next one."""
    gaps = [later - before for before, later in pairwise(moments) if since < later <= until]
    return round(max(gaps, default=0.0), 1)
