"""Which queues are asked next, and for how many: by weight, so that none starves (G12). Pure.

Each queue has a clock that advances with every job it was given, the slower the more weight it has. The
one whose clock is furthest behind comes first. A queue that was empty for long has no right to what it
did not ask for: its clock is set to the time of those that are served.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import nsmallest

EVERY = "*"
"""Stands for every queue that is not named."""

_MOST = 32
"""How many queues one claim asks: more of them cost more than the fairness of a single claim is worth."""


class Turns:
    """Divides the free slots among queues."""

    def __init__(self, weights: Mapping[str, int], *, strict: bool) -> None:
        """`strict` serves queues in the order given: the next only while those before it are empty."""
        self._weights = weights
        self._places = {queue: place for place, queue in enumerate(weights)}
        self._strict = strict
        self._clocks: dict[str, float] = {}
        self._time = 0.0

    def join(self, queue: str) -> None:
        """There may be something in this queue now."""
        self._clocks[queue] = max(self._clocks.get(queue, 0.0), self._time)

    def keep(self, queues: Collection[str]) -> None:
        """Forgets all others, but for those that are still ahead of the time."""
        self._clocks = {
            queue: clock
            for queue, clock in self._clocks.items()
            if queue in queues or clock > self._time
        }

    def served(self, queue: str, count: int) -> None:
        """So many of this queue's jobs were started."""
        self._clocks[queue] = self._clocks.get(queue, self._time) + count / self._weight(queue)

    def shares(self, queues: Collection[str], room: int) -> list[tuple[str, int]]:
        """How many to ask of each, in order; not more than `room` in all."""
        if not queues or room <= 0:
            return []
        if self._strict:
            return [(min(queues, key=self._place), room)]
        chosen = nsmallest(min(_MOST, room), queues, key=self.clock)
        self._time = max(self._time, self.clock(chosen[0]))
        total = sum(map(self._weight, chosen))
        counts = [room * self._weight(queue) // total for queue in chosen]
        for place in range(room - sum(counts)):  # fewer than there are queues
            counts[place] += 1
        return [(queue, count) for queue, count in zip(chosen, counts, strict=True) if count]

    def clock(self, queue: str) -> float:
        """How far it is: less than others, for its weight, is earlier."""
        return self._clocks.get(queue, self._time)

    def _weight(self, queue: str) -> int:
        return self._weights.get(queue) or self._weights.get(EVERY, 1)

    def _place(self, queue: str) -> tuple[int, str]:
        return self._places.get(queue, self._places.get(EVERY, 0)), queue
