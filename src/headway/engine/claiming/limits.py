"""The limits that a worker knows, and the lines of a claim that wait for room under them.

The claim itself keeps limits, in the database (moves/claim.sql). This module avoids claims in vain. A
line that got less than it asked for is asked again when:

- room was freed, here or elsewhere;
- the next token is due;
- another claim has released the limit.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter

from headway.core.clock import monotonic
from headway.core.info import Control
from headway.engine.claiming.lines import ClaimLine
from headway.store.rows import Claim
from headway.store.statements.controls import LockedLimit, first_end

LimitName = tuple[str, str]
"""("queue", its name) or ("task", the handler)."""

_QUEUE_AND_HANDLER = attrgetter("queue", "handler")

_TRY_AGAIN = (0.005, 0.015)
"""Seconds until a limit that another claim had locked is tried again: random, so that two workers take
turns."""


class KnownLimits:
    """The limits of queues and tasks that this worker knows from its last scan."""

    def __init__(self) -> None:
        self.nothing_in_force = False
        """The last scan found no pause and no limit, and no claim has met one since."""
        self._names = frozenset[LimitName]()
        self._held: set[ClaimLine] = set()
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
    def held(self) -> Collection[ClaimLine]:
        """The lines that wait for room."""
        return self._held

    def take_in(self, controls: Sequence[Control]) -> None:
        """Take in the pauses and limits that are in force now."""
        self.nothing_in_force = not any(row.limited or row.paused for row in controls)
        self._names = frozenset(
            (row.kind, row.name)
            for row in controls
            if row.limited and row.kind in ("queue", "task")
        )
        ends_in = first_end(controls)
        self._pause_ends_at = None if ends_in is None else monotonic() + ends_in

    def of(self, queue: str, handler: str | None) -> list[LimitName]:
        """Return the limits that a job of this queue and handler counts under."""
        if not self._names:
            return []
        names: list[LimitName] = [("queue", queue)]
        if handler is not None:
            names.append(("task", handler))
        return [name for name in names if name in self._names]

    def count(self, claims: Iterable[Claim]) -> Counter[LimitName]:
        """Return how many of these claims count under each limit."""
        counted = Counter[LimitName]()
        if self._names:
            for (queue, handler), count in Counter(map(_QUEUE_AND_HANDLER, claims)).items():
                counted.update(dict.fromkeys(self.of(queue, handler), count))
        return counted

    def hold(self, line: ClaimLine) -> bool:
        """Let a line wait for room. Return false if it has no limit."""
        if not self.of(line[0], line[2]):
            return False
        self._held.add(line)
        return True

    def open(self, name: LimitName) -> set[ClaimLine]:
        """There may be room under a limit. Return the lines that waited for it."""
        self._opens_at.pop(name, None)
        opened = {line for line in self._held if name in self.of(line[0], line[2])}
        self._held -= opened
        return opened

    def open_all(self) -> None:
        """Let no line wait any more, because a scan has read everything."""
        self._held.clear()
        self._opens_at.clear()

    def open_due(self) -> set[ClaimLine]:
        """Return the lines whose moment has come."""
        now = monotonic()
        due = [name for name, moment in self._opens_at.items() if moment <= now]
        return {line for name in due for line in self.open(name)}

    def pause_ended(self) -> bool:
        """Return whether a pause has ended by itself since the last call."""
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
        """Take in what a claim found out: when to ask again under each of its limits."""
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
        """Return the limits because of which a claim may have left jobs: it used all their room, or
        another claim had locked them."""
        roomy = {
            (limit.kind, limit.name)
            for limit in locked
            if not limit.token_in(taken[limit.kind, limit.name])
            and (limit.room is None or taken[limit.kind, limit.name] < limit.room)
        }
        return {*asked} - roomy

    def wait(self) -> float | None:
        """Return the seconds until the next moment that a line waits for."""
        moments = [*self._opens_at.values()] if self._held else []
        if self._pause_ends_at is not None:
            moments.append(self._pause_ends_at)
        return max(0.0, min(moments) - monotonic()) if moments else None
