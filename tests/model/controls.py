"""The controls of queues, tasks and keys in plain Python: pauses, limits and tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from headway.core.limits import Limit

Name = tuple[str, str]
"""("queue", a queue), ("task", a handler), ("keys", a handler: each of its keys) or ("key", one key)."""

UNLIMITED = 32_000
"""Room under each key of a handler whose limit says nothing of it."""

TURN = 32
"""At most this many jobs of each key are ready."""


class Numbers(NamedTuple):
    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None

    @classmethod
    def of(cls, limit: Limit | None) -> Numbers:
        return cls() if limit is None else cls(limit.concurrency, limit.per_second, limit.at_once)

    @property
    def bound(self) -> bool:
        return self.concurrency is not None or self.rate is not None

    def tokens(self, debt: float) -> int:
        """Return how many may start if all tokens are earned after these seconds."""
        assert self.rate is not None
        assert self.burst is not None
        return max(0, math.floor(self.burst + 1e-6 - debt * self.rate))

    def cost(self, starts: int) -> timedelta:
        """Return the seconds to earn this many tokens."""
        assert self.rate is not None
        return timedelta(seconds=starts / self.rate)


NO_NUMBERS = Numbers()


class Rate:
    """One that was set; the next one is another, though it may be as fast."""


@dataclass
class Control:
    paused: bool = False
    until: datetime | None = None
    numbers: Numbers = NO_NUMBERS
    rate: Rate = field(default_factory=Rate)
    spent_until: datetime | None = None
    declared: Numbers | None = None
    by_person: bool = False

    def debt(self, now: datetime) -> float:
        if self.numbers.rate is None:
            return 0.0
        return max(0.0, ((self.spent_until or now) - now).total_seconds())


@dataclass
class Controls:
    rows: dict[Name, Control] = field(default_factory=dict)
    buckets: dict[tuple[str, Rate], datetime] = field(default_factory=dict)
    """Of keys with a rate: when all tokens that starts have taken will have been earned."""

    # -- pauses -----------------------------------------------------------------------------------

    def pause(self, name: Name, until: datetime | None) -> None:
        row = self.rows.setdefault(name, Control())
        row.paused, row.until = True, until

    def resume(self, name: Name, now: datetime) -> bool:
        was = self.paused(name, now)
        if name in self.rows and self.rows[name].paused:
            self.rows[name].paused = False
            self._drop_bare(name)
        return was

    def clean_up(self, now: datetime) -> None:
        """Pauses that are over, of what nothing else is said."""
        for name, row in list(self.rows.items()):
            if row.paused and not self.paused(name, now):
                self._drop_bare(name)

    def _drop_bare(self, name: Name) -> None:
        row = self.rows[name]
        if not (row.numbers.bound or row.declared or row.by_person):
            del self.rows[name]

    def paused(self, name: Name, now: datetime) -> bool:
        row = self.rows.get(name)
        return row is not None and row.paused and (row.until is None or row.until > now)

    def handler_paused(self, handler: str, now: datetime) -> bool:
        """A pause of a flow's name is one of all its steps."""
        names = {handler, handler.split("/")[0]}
        return any(self.paused(("task", name), now) for name in names)

    def shut(self, queue: str, handler: str, now: datetime) -> bool:
        """Whether nothing of a queue or handler may run: it is paused, or limited to none."""
        if self.paused(("queue", queue), now) or self.handler_paused(handler, now):
            return True
        return any(
            self.numbers(name).concurrency == 0 for name in (("queue", queue), ("task", handler))
        )

    # -- limits -----------------------------------------------------------------------------------

    def set(self, name: Name, numbers: Numbers) -> None:
        row = self.rows.setdefault(name, Control())
        self._change(row, numbers)
        row.by_person = True

    def _change(self, row: Control, numbers: Numbers) -> None:
        """Moments that another rate has spent ahead say nothing of this one."""
        if numbers.rate != row.numbers.rate:
            row.spent_until, row.rate = None, Rate()
        row.numbers = numbers

    def reset(self, name: Name) -> bool:
        row = self.rows.get(name)
        if row is None or not row.by_person:
            return False
        self._change(row, row.declared or NO_NUMBERS)
        row.by_person = False
        if row.declared is None and not row.paused:
            del self.rows[name]
        return True

    def declare(self, said: Iterable[tuple[Name, Numbers | None]]) -> int:
        """How many of them were news."""
        news = 0
        for name, numbers in said:
            row = self.rows.get(name)
            if (None if row is None else row.declared) == numbers:
                continue
            row = self.rows.setdefault(name, Control())
            row.declared = numbers
            if not row.by_person and numbers is not None:
                self._change(row, numbers)
            elif not row.by_person:
                self._change(row, NO_NUMBERS)
            news += 1
        return news

    def numbers(self, name: Name) -> Numbers:
        row = self.rows.get(name)
        return NO_NUMBERS if row is None else row.numbers

    def bound(self, kind: str) -> set[str]:
        return {name for (of, name), row in self.rows.items() if of == kind and row.numbers.bound}

    def room(self, name: Name, running: int, now: datetime) -> int:
        """How many more may start under a limit of a queue or task."""
        row = self.rows[name]
        rooms: list[int] = []
        if row.numbers.concurrency is not None:
            rooms.append(max(0, row.numbers.concurrency - running))
        if row.numbers.rate is not None:
            rooms.append(row.numbers.tokens(row.debt(now)))
        return min(rooms)

    def spend(self, name: Name, now: datetime) -> None:
        row = self.rows.get(name)
        if row is not None and row.numbers.rate is not None:
            row.spent_until = max(row.spent_until or now, now) + row.numbers.cost(1)

    # -- each key of a handler ----------------------------------------------------------------------

    def key_room(self, key: str, handler: str, held: int, ready: int, now: datetime) -> int:
        """Return how many more may be admitted. A token is kept for each ready job."""
        row = self.rows.get(("keys", handler), Control())
        most = UNLIMITED if row.numbers.concurrency is None else row.numbers.concurrency
        room = min(most - held, TURN - ready)
        if row.numbers.rate is not None:
            debt = (self.buckets.get((key, row.rate), now) - now).total_seconds()
            room = min(room, row.numbers.tokens(max(0.0, debt)) - ready)
        return max(0, room)

    def key_start(self, key: str, handler: str, now: datetime) -> Rate | None:
        """The rate that a start under this key takes a token of."""
        row = self.rows.get(("keys", handler), Control())
        if row.numbers.rate is None:
            return None
        spent_until = max(self.buckets.get((key, row.rate), now), now)
        self.buckets[key, row.rate] = spent_until + row.numbers.cost(1)
        return row.rate

    def key_return(self, key: str, handler: str, taken: Rate) -> None:
        """It did not start after all."""
        row = self.rows.get(("keys", handler), Control())
        if row.rate is taken:
            self.buckets[key, taken] -= row.numbers.cost(1)

    def spent(self, now: datetime) -> dict[str, datetime]:
        """Of keys with tokens to earn under the rate there is now: when all of them will be."""
        rates = {row.rate for row in self.rows.values() if row.numbers.rate is not None}
        found = {key: at for (key, rate), at in self.buckets.items() if rate in rates}
        return {key: at for key, at in found.items() if at > now}
