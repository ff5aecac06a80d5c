"""Statements that change all waiting jobs of a queue, and the script that repeats them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from headway.core.info import WaitingCount
from headway.store.connections.connect import Target
from headway.store.rows import label
from headway.store.scripts import Script
from headway.store.statement import Row, Statement, count
from headway.store.statements.jobs import Moment

_FIRST = UUID(int=0)
_PASSES = 3


@dataclass(frozen=True, slots=True)
class Portion:
    """The result of one statement that walked some rows."""

    changed: int
    meant: int
    """The rows that it was to change. More than `changed` if some were locked."""
    last: UUID | None
    """The last row walked, or None at the end of the table."""
    before: Moment
    """The moment at which the first statement ran."""


Change = Callable[[UUID, Moment], Statement[Portion]]
"""Builds the statement that continues after a row, for jobs made before a moment."""


def purge(target: Target, queue: str, task: str | None, now: Moment) -> Change:
    """Cancel the waiting jobs of a queue."""

    def change(after: UUID, before: Moment) -> Statement[Portion]:
        params = {
            "queue": queue,
            "task": task,
            "after": str(after),
            "before": before,
            "channel": target.work_channel,
            "done": target.done_channel,
            "now": now,
        }
        return Statement("moves/purge", params, _portion)

    return change


def transfer(target: Target, queue: str, to: str, task: str | None, now: Moment) -> Change:
    """Move the waiting jobs of a queue to another."""

    def change(after: UUID, before: Moment) -> Statement[Portion]:
        params = {
            "queue": queue,
            "target": to,
            "task": task,
            "after": str(after),
            "before": before,
            "channel": target.work_channel,
            "now": now,
        }
        return Statement("moves/transfer", params, _portion)

    return change


def throughout(change: Change, on_progress: Callable[[int], None] | None = None) -> Script[int]:
    """Change rows from first to last. Return how many; `on_progress` gets the number so far.

    Rows that another session had locked are read again, a few times: they were claimed or put back.
    """
    changed, before = 0, None
    for _ in range(_PASSES):
        after, left = _FIRST, 0
        while True:
            portion: Portion = yield change(after, before)
            changed, before = changed + portion.changed, portion.before
            left += portion.meant - portion.changed
            if on_progress is not None:
                on_progress(changed)
            if portion.last is None:
                break
            after = portion.last
        if not left:
            break
    return changed


def waiting(queue: str, task: str | None) -> Statement[list[WaitingCount]]:
    """Count the jobs that wait in a queue, by task and state."""
    params = {"queue": queue, "task": task}
    return Statement("reads/waiting_counts", params, _waiting)


def busy(queue: str) -> Statement[int]:
    """Count the running jobs of a queue."""
    return Statement("reads/busy", {"queue": queue}, count)


def _portion(rows: Sequence[Row]) -> Portion:
    return Portion(*rows[0][:4])


def _waiting(rows: Sequence[Row]) -> list[WaitingCount]:
    return [WaitingCount(task, label(state), number) for task, state, number in rows]
