"""Changes of all jobs that wait in a queue, as statements and as the script that repeats them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from headway.core.state import State
from headway.store.connect import Target
from headway.store.jobs import Moment
from headway.store.scripts import Script
from headway.store.statement import Row, Statement, count

_FIRST = UUID(int=0)
_PASSES = 3


@dataclass(frozen=True, slots=True)
class Parked:
    """How many jobs of a task wait in a queue, in one state."""

    task: str
    state: str
    count: int


@dataclass(frozen=True, slots=True)
class Portion:
    """What one statement changed of the rows that it walked."""

    changed: int
    meant: int
    """Those that it was about: more than were changed if some were changing hands."""
    last: UUID | None
    """The last row walked; none at the end of the table."""
    before: Moment
    """The moment at which all of it began."""


Change = Callable[[UUID, Moment], Statement[Portion]]
"""Makes the statement that goes on behind a row, for jobs made before a moment."""


def purge(target: Target, queue: str, task: str | None, now: Moment) -> Change:
    """Cancels what waits in a queue."""

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
    """Has what waits in a queue wait in another."""

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


def throughout(change: Change, told: Callable[[int], None] | None = None) -> Script[int]:
    """Makes a change from the first row to the last; how many it changed, and `told` that so far.

    What someone else had in hand at its moment is looked at again, a few times: it was claimed, or has
    been put back.
    """
    changed, before = 0, None
    for _ in range(_PASSES):
        after, left = _FIRST, 0
        while True:
            portion: Portion = yield change(after, before)
            changed, before = changed + portion.changed, portion.before
            left += portion.meant - portion.changed
            if told is not None:
                told(changed)
            if portion.last is None:
                break
            after = portion.last
        if not left:
            break
    return changed


def parked(queue: str, task: str | None) -> Statement[list[Parked]]:
    """What waits in a queue."""
    params = {"queue": queue, "task": task}
    return Statement("reads/parked", params, _parked)


def busy(queue: str) -> Statement[int]:
    """How many jobs of a queue run."""
    return Statement("reads/busy", {"queue": queue}, count)


def _portion(rows: Sequence[Row]) -> Portion:
    return Portion(*rows[0][:4])


def _parked(rows: Sequence[Row]) -> list[Parked]:
    return [Parked(task, State(state).label, number) for task, state, number in rows]
