"""Which queues are asked next, and for how many: by weight, so that none starves (G12). Pure.

Each queue has a clock that advances with every job it was given, the slower the more weight it has. The
one whose clock is furthest behind comes first. A queue that was empty for long has no right to what it
did not ask for: its clock is set to the time of those that are served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import count

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
        self._line: list[tuple[float, int, int, str]] = []
        """A heap, so that a turn costs the same with ten queues or a thousand."""
        self._standing: dict[str, int] = {}
        """The number of each queue's entry in the line; those with another are of the past."""
        self._numbers = count()

    def join(self, queue: str) -> None:
        """There may be something in this queue now."""
        self._clocks[queue] = max(self._clocks.get(queue, 0.0), self._time)
        self._stand(queue)

    def leave(self, queue: str) -> None:
        """There is nothing in it. Its clock goes on: to come and go is no way to more."""
        self._standing.pop(queue, None)

    def tidy(self) -> None:
        """Forgets those who left, but for the clocks that are still ahead of the time."""
        self._clocks = {
            queue: clock
            for queue, clock in self._clocks.items()
            if queue in self._standing or clock > self._time
        }
        self._line = [entry for entry in self._line if self._standing.get(entry[3]) == entry[2]]
        heapify(self._line)

    def served(self, queue: str, count: int, place: int = 0) -> None:
        """So many of this queue's jobs were started, up to `place`.

        Of those whose clocks agree the one that was read less far is first: its next have waited for
        longest, and in the table they lie close to those of its neighbours, cheap to reach together.
        """
        self._clocks[queue] = self.clock(queue) + count / self._weight(queue)
        if queue in self._standing:
            self._stand(queue, place)

    def shares(
        self, room: int, able: Callable[[str], bool] = lambda _: True
    ) -> list[tuple[str, int]]:
        """How many to ask of each that is able, in order; not more than `room` in all."""
        chosen = self._first(1 if self._strict else min(_MOST, room), able)
        if not chosen or room <= 0:
            return []
        self._time = max(self._time, self.clock(chosen[0]))
        total = sum(map(self._weight, chosen))
        counts = [room * self._weight(queue) // total for queue in chosen]
        for place in range(room - sum(counts)):  # fewer than there are queues
            counts[place] += 1
        return [(queue, count) for queue, count in zip(chosen, counts, strict=True) if count]

    def clock(self, queue: str) -> float:
        """How far it is: less than others, for its weight, is earlier."""
        return self._clocks.get(queue, self._time)

    def _first(self, most: int, able: Callable[[str], bool]) -> list[str]:
        chosen: list[str] = []
        met: list[tuple[float, int, int, str]] = []
        while self._line and len(chosen) < most:
            entry = heappop(self._line)
            _, _, number, queue = entry
            if self._standing.get(queue) != number:
                continue
            met.append(entry)
            if able(queue):
                chosen.append(queue)
        for entry in met:
            heappush(self._line, entry)
        return chosen

    def _stand(self, queue: str, place: int = 0) -> None:
        self._standing[queue] = number = next(self._numbers)
        rank = self._place(queue) if self._strict else self._clocks[queue]
        heappush(self._line, (rank, place, number, queue))

    def _weight(self, queue: str) -> int:
        return self._weights.get(queue) or self._weights.get(EVERY, 1)

    def _place(self, queue: str) -> int:
        return self._places.get(queue, self._places.get(EVERY, 0))
