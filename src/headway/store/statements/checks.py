"""Statements that read stored calls, to be tried against the code of an app."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.core import codec
from headway.core.check import StoredCall
from headway.store.statement import Row, Statement


@dataclass(frozen=True, slots=True)
class CallPage:
    """Unfinished jobs of some queues, of a page of all."""

    last: str | None
    """The last id of the page; None after the end."""
    read: int
    """How many jobs the page has, those of other queues included."""
    calls: list[StoredCall]


@dataclass(frozen=True, slots=True)
class ScheduleCall:
    """The call of a schedule, and the code that declares it."""

    call: StoredCall
    declared: bool
    owner: str


def unfinished(queues: Sequence[str] | None, after: str, limit: int) -> Statement[CallPage]:
    """Return a page of unfinished jobs after an id, those of these queues (None: of all)."""
    params = {"queues": _document(queues), "after": after, "limit": limit}
    return Statement("reads/unfinished", params, _page)


def schedule_calls(queues: Sequence[str] | None, limit: int) -> Statement[list[ScheduleCall]]:
    """Return the calls of schedules into these queues (None: into all)."""
    params = {"queues": _document(queues), "limit": limit}
    return Statement(
        "reads/schedule_calls",
        params,
        lambda rows: [ScheduleCall(StoredCall(*row[:6]), *row[6:]) for row in rows],
    )


def _document(queues: Sequence[str] | None) -> str | None:
    return None if queues is None else codec.encode_document(list(queues))


def _page(rows: Sequence[Row]) -> CallPage:
    return CallPage(rows[0][0], int(rows[0][1]), [StoredCall(*row) for row in rows[1:]])
