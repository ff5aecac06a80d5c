"""Statements that count jobs: the live ones by state, and the ended ones by outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.core import codec
from headway.store.statement import Row, Statement, count
from headway.store.statements.jobs import Moment

Counts = Mapping[tuple[str, str], int]
"""The number of jobs by queue and state (the letter in the row)."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The live jobs in some pages of the table, and the number of its pages."""

    pages: int
    counts: dict[tuple[str, str], int]


def tally(limit: int, now: Moment) -> Statement[int]:
    """Add up the jobs that ended since the last time. Return the number of rows added up."""
    return Statement("writes/tally", {"limit": limit, "now": now}, count)


def counted(first: int, last: int) -> Statement[Counted]:
    """Count the live jobs in the pages from `first` to before `last`."""
    params = {"first": f"({first},0)", "last": f"({last},0)"}
    return Statement("reads/counted", params, _counted)


def job_counts(counts: Counts, now: Moment) -> Statement[int]:
    """Store the number of live jobs in place of the last count."""
    document = [
        {"queue": queue, "state": state, "count": number}
        for (queue, state), number in counts.items()
    ]
    params = {"counts": codec.encode_document(document), "now": now}
    return Statement("writes/job_counts", params, count)


def _counted(rows: Sequence[Row]) -> Counted:
    return Counted(rows[0][2], {(row[0], row[1]): row[2] for row in rows[1:]})
