"""Decides which queues are asked next, and for how many jobs: by weight, so none starves (G12). Pure.

Each queue has a clock that advances with every job that started. A queue with more weight has a slower
clock. The queue whose clock is furthest behind comes first. A queue that was empty has no claim to the
turns that it did not use: its clock is set to the time of the queues that are served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import count

EVERY = "*"
"""Stands for every queue that is not listed."""

_MOST = 32
"""The most queues that one claim asks: with more of them a single claim costs too much."""


class FairShare:
    """Divides the free slots among queues."""

    def __init__(self, weights: Mapping[str, int], *, strict: bool) -> None:
        """`strict` serves queues in the given order: a queue only while those before it are empty."""
        self._weights = weights
        self._positions = {queue: position for position, queue in enumerate(weights)}
        self._strict = strict
        self._clocks: dict[str, float] = {}
        self._time = 0.0
        self._heap: list[tuple[float, int, int, str]] = []
        """A heap, so that a claim costs the same with ten queues or a thousand."""
        self._entries: dict[str, int] = {}
        """The number of each queue's current entry in the heap. Entries with another number are old."""
        self._numbers = count()

    def join(self, queue: str) -> None:
        """This queue may have ready jobs."""
        self._clocks[queue] = max(self._clocks.get(queue, 0.0), self._time)
        self._enter(queue)

    def leave(self, queue: str) -> None:
        """This queue is empty. It keeps its clock, so leaving and joining gains nothing."""
        self._entries.pop(queue, None)

    def tidy(self) -> None:
        """Forget the queues that left, except for clocks that are still ahead of the time."""
        self._clocks = {
            queue: clock
            for queue, clock in self._clocks.items()
            if queue in self._entries or clock > self._time
        }
        self._heap = [entry for entry in self._heap if self._entries.get(entry[3]) == entry[2]]
        heapify(self._heap)

    def served(self, queue: str, count: int, seq: int = 0) -> None:
        """Count jobs of this queue that started, up to the seq `seq`.

        Among queues with equal clocks the one with the lowest seq comes first. Its next jobs have
        waited longest, and they are close together in the table, so a claim reads fewer pages.
        """
        self._clocks[queue] = self.clock(queue) + count / self._weight(queue)
        if queue in self._entries:
            self._enter(queue, seq)

    def shares(
        self, room: int, able: Callable[[str], bool] = lambda _: True
    ) -> list[tuple[str, int]]:
        """Return how many jobs to ask of each queue that is able, in order; at most `room` in total."""
        chosen = self._first(1 if self._strict else min(_MOST, room), able)
        if not chosen or room <= 0:
            return []
        self._time = max(self._time, self.clock(chosen[0]))
        total = sum(map(self._weight, chosen))
        counts = [room * self._weight(queue) // total for queue in chosen]
        for index in range(room - sum(counts)):  # fewer than there are queues
            counts[index] += 1
        return [(queue, count) for queue, count in zip(chosen, counts, strict=True) if count]

    def clock(self, queue: str) -> float:
        """Return the clock of a queue: the lowest comes first."""
        return self._clocks.get(queue, self._time)

    def _first(self, most: int, able: Callable[[str], bool]) -> list[str]:
        chosen: list[str] = []
        met: list[tuple[float, int, int, str]] = []
        while self._heap and len(chosen) < most:
            entry = heappop(self._heap)
            _, _, number, queue = entry
            if self._entries.get(queue) != number:
                continue
            met.append(entry)
            if able(queue):
                chosen.append(queue)
        for entry in met:
            heappush(self._heap, entry)
        return chosen

    def _enter(self, queue: str, seq: int = 0) -> None:
        self._entries[queue] = number = next(self._numbers)
        rank = self._position(queue) if self._strict else self._clocks[queue]
        heappush(self._heap, (rank, seq, number, queue))

    def _weight(self, queue: str) -> int:
        return self._weights.get(queue) or self._weights.get(EVERY, 1)

    def _position(self, queue: str) -> int:
        return self._positions.get(queue, self._positions.get(EVERY, 0))
