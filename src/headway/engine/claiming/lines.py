"""The lines of a worker's claims, and which of them may have ready jobs.

A claim asks for jobs by line: a queue, a priority and, for a handler with slots or a limit of its own,
that handler. All other handlers of a lane share one line. Only active lines are asked, so an empty
queue costs nothing, however many there are.

Invariants:

L1  A queue has a turn (fair_share.py) if and only if it has an active line.
L2  The priorities of a queue that has active lines include the priorities of all of them.
L3  Lines of one lane take turns: the line that was served longest ago comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest

from headway.engine.claiming.fair_share import FairShare
from headway.store.rows import Lane

ClaimLine = tuple[str, int, str | None]
"""A queue, a priority and, for a handler that is asked for alone, that handler."""

_MOST_ABOVE = 16
"""The most priorities above the active ones that a claim asks as well."""


class ClaimLines:
    """Knows the lines, and the active ones among them."""

    def __init__(self, handlers: Sequence[str], fair_share: FairShare) -> None:
        self._handlers = handlers
        self._fair_share = fair_share
        self.alone: tuple[str, ...] = ()
        """The handlers that are asked for on a line of their own."""
        self.together = tuple(handlers)
        """The handlers that share the line of a lane."""
        self._active: dict[str, set[ClaimLine]] = {}
        self._priorities: dict[str, set[int]] = {}
        """The priorities at which each queue had something since it became active."""
        self._served_in: dict[ClaimLine, int] = {}
        """The number of the last claim that got a job of each line."""

    @property
    def active(self) -> Mapping[str, Collection[ClaimLine]]:
        """The lines that may have ready jobs, by queue."""
        return self._active

    def all_active(self) -> set[ClaimLine]:
        """Return the active lines of all queues."""
        return {line for lines in self._active.values() for line in lines}

    def active_lanes(self) -> set[Lane]:
        """Return the lanes that have an active line."""
        return {Lane(queue, line[1]) for queue, lines in self._active.items() for line in lines}

    def of(self, lane: Lane) -> list[ClaimLine]:
        """Return the lines of a lane."""
        lines: list[ClaimLine] = [(lane.queue, lane.priority, own) for own in self.alone]
        return [(lane.queue, lane.priority, None), *lines] if self.together else lines

    def has_seen(self, lane: Lane) -> bool:
        """Return whether this priority is known in its queue."""
        return lane.priority in self._priorities.get(lane.queue, ())

    def divide(self, alone: Collection[str]) -> bool:
        """Ask for these handlers alone from now on. Return whether that changes the lines."""
        divided = (
            tuple(handler for handler in self._handlers if handler in alone),
            tuple(handler for handler in self._handlers if handler not in alone),
        )
        if divided == (self.alone, self.together):
            return False
        self.alone, self.together = divided
        return True

    def activate(self, lines: Iterable[ClaimLine]) -> None:
        """These lines may have ready jobs."""
        for line in lines:
            queue = line[0]
            if queue not in self._active:
                self._active[queue] = set()
                self._fair_share.join(queue)
            self._active[queue].add(line)
            self._priorities.setdefault(queue, set()).add(line[1])

    def deactivate(self, line: ClaimLine) -> None:
        """This line has no more ready jobs, or none that may start now."""
        lines = self._active.get(line[0])
        if lines is not None:
            lines.discard(line)
            if not lines:
                del self._active[line[0]]
                self._fair_share.leave(line[0])

    def deactivate_all(self) -> None:
        for queue in self._active:
            self._fair_share.leave(queue)
        self._active.clear()

    def forget_priorities(self) -> None:
        """Forget which priorities queues have, because a notification may have invented them."""
        self._priorities.clear()

    def keep_active(self) -> None:
        """Forget everything about lines and queues that are not active."""
        active = self.all_active()
        self._served_in = {line: claim for line, claim in self._served_in.items() if line in active}
        self._priorities = {queue: self._priorities[queue] for queue in self._active}
        self._fair_share.tidy()

    def served(self, line: ClaimLine, claim: int) -> None:
        """The claim of this number got jobs of the line."""
        self._served_in[line] = claim

    def in_order(self, queue: str) -> Collection[ClaimLine]:
        """Return the lines of a queue that a claim asks, the most urgent first."""
        lines = self._active[queue]
        if self.together and len(self._priorities[queue]) > 1:
            lines = lines | self._above(queue)
        return sorted(lines, key=self._rank) if len(lines) > 1 else lines

    def _above(self, queue: str) -> set[ClaimLine]:
        """Return lines above the active ones. A job that became ready there goes first, even if its
        notification has not arrived yet."""
        lowest = min(priority for _, priority, _ in self._active[queue])
        higher = (priority for priority in self._priorities[queue] if priority > lowest)
        return {(queue, priority, None) for priority in nlargest(_MOST_ABOVE, higher)}

    def _rank(self, line: ClaimLine) -> tuple[int, int, str]:
        return -line[1], self._served_in.get(line, 0), line[2] or ""
