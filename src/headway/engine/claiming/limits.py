"""What a worker knows of limits, and the lines of a claim that wait for room under them.

The claim itself keeps limits, in the database (moves/claim.sql). This is about not asking in vain: a
line that got less than it asked for is asked again when room was freed, here or elsewhere, when the
next token is due, or when someone else has let go of the limit.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter

from headway.core.clock import monotonic
from headway.store.controls import ControlRow, LockedLimit, first_end
from headway.store.rows import Claim

Line = tuple[str, int, str | None]
"""A queue, a priority and, for a handler that is asked for alone, that handler: what has a cursor."""

LimitName = tuple[str, str]
"""("queue", its name) or ("task", the handler)."""

_QUEUE_AND_HANDLER = attrgetter("queue", "handler")

_TRY_AGAIN = (0.005, 0.015)
"""Seconds after which a limit that someone else had is asked for again; drawn, so that two take turns."""


class Limits:
    """The limits of queues and tasks, as far as this worker has heard of them."""

    def __init__(self) -> None:
        self._names = frozenset[LimitName]()
        self._held: set[Line] = set()
        self._opens_at: dict[LimitName, float] = {}
        self._pause_ends_at: float | None = None

    @property
    def names(self) -> Collection[LimitName]:
        """The limits that this worker knows of."""
        return self._names

    @property
    def tasks(self) -> list[str]:
        """The handlers that have a limit, and so are asked for alone."""
        return sorted(name for kind, name in self._names if kind == "task")

    @property
    def held(self) -> Collection[Line]:
        """The lines that wait for room."""
        return self._held

    def take_in(self, controls: Sequence[ControlRow]) -> None:
        """What is said now."""
        self._names = frozenset(
            (row.kind, row.name)
            for row in controls
            if row.limited and row.kind in ("queue", "task")
        )
        ends_in = first_end(controls)
        self._pause_ends_at = None if ends_in is None else monotonic() + ends_in

    def of(self, queue: str, handler: str | None) -> list[LimitName]:
        """The limits that a job of this queue and handler counts under."""
        if not self._names:
            return []
        names: list[LimitName] = [("queue", queue)]
        if handler is not None:
            names.append(("task", handler))
        return [name for name in names if name in self._names]

    def count(self, claims: Iterable[Claim]) -> Counter[LimitName]:
        """How many of these count under which limits."""
        counted = Counter[LimitName]()
        if self._names:
            for (queue, handler), count in Counter(map(_QUEUE_AND_HANDLER, claims)).items():
                counted.update(dict.fromkeys(self.of(queue, handler), count))
        return counted

    def hold(self, line: Line) -> bool:
        """The line waits for room, if it has a limit; false if it has none."""
        if not self.of(line[0], line[2]):
            return False
        self._held.add(line)
        return True

    def open(self, name: LimitName) -> set[Line]:
        """There may be room under a limit: the lines that waited for it."""
        self._opens_at.pop(name, None)
        opened = {line for line in self._held if name in self.of(line[0], line[2])}
        self._held -= opened
        return opened

    def open_all(self) -> None:
        """Nobody waits any more: everything is looked at anew."""
        self._held.clear()
        self._opens_at.clear()

    def open_due(self) -> set[Line]:
        """The lines that waited for a moment which has come."""
        now = monotonic()
        due = [name for name, moment in self._opens_at.items() if moment <= now]
        return {line for name in due for line in self.open(name)}

    def pause_ended(self) -> bool:
        """Whether a pause has ended by itself since this was last asked."""
        if self._pause_ends_at is None or self._pause_ends_at > monotonic():
            return False
        self._pause_ends_at = None
        return True

    def learn(
        self,
        asked: Iterable[LimitName],
        locked: Sequence[LockedLimit],
        taken: Counter[LimitName],
    ) -> None:
        """Takes in what a claim found: when each limit that was asked under is to be asked again."""
        ours = {(limit.kind, limit.name): limit for limit in locked}
        for name in asked:
            limit = ours.get(name)
            wait = random.uniform(*_TRY_AGAIN) if limit is None else limit.token_in(taken[name])
            if wait:
                self._opens_at[name] = monotonic() + wait

    def shut(
        self,
        asked: Iterable[LimitName],
        locked: Sequence[LockedLimit],
        taken: Counter[LimitName],
    ) -> set[LimitName]:
        """The limits for whose sake a claim may have left something: it took all that they had, or
        someone else had them."""
        roomy = {
            (limit.kind, limit.name)
            for limit in locked
            if not limit.token_in(taken[limit.kind, limit.name])
            and (limit.room is None or taken[limit.kind, limit.name] < limit.room)
        }
        return {*asked} - roomy

    def wait(self) -> float | None:
        """Seconds until the next moment that somebody waits for."""
        moments = [*self._opens_at.values()] if self._held else []
        if self._pause_ends_at is not None:
            moments.append(self._pause_ends_at)
        return max(0.0, min(moments) - monotonic()) if moments else None
