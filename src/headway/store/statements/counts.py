"""How many jobs there are and were: adding up the tally, and taking the census, as statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.core import codec
from headway.store.jobs import Moment
from headway.store.statement import Row, Statement, count

Counts = Mapping[tuple[str, str], int]
"""How many jobs, by queue and state (the letter that the row holds)."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What lies in some pages of the table of live jobs, and how many pages it has."""

    pages: int
    counts: dict[tuple[str, str], int]


def tally(limit: int, now: Moment) -> Statement[int]:
    """Adds up how many jobs ended since the last time; how many rows that were."""
    return Statement("writes/tally", {"limit": limit, "now": now}, count)


def counted(first: int, last: int) -> Statement[Counted]:
    """The live jobs of the pages from `first` to before `last`."""
    params = {"first": f"({first},0)", "last": f"({last},0)"}
    return Statement("reads/counted", params, _counted)


def census(counts: Counts, now: Moment) -> Statement[int]:
    """Keeps how many live jobs there are, instead of what was kept before."""
    document = [
        {"queue": queue, "state": state, "count": number}
        for (queue, state), number in counts.items()
    ]
    params = {"counts": codec.encode_document(document), "now": now}
    return Statement("writes/census", params, count)


def _counted(rows: Sequence[Row]) -> Counted:
    return Counted(rows[0][2], {(row[0], row[1]): row[2] for row in rows[1:]})
