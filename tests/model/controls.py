"""What people and the code say of queues, tasks and keys, in plain Python: pauses, limits and tokens."""

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
        """How many may start when it takes so many seconds until all tokens are earned."""
        assert self.rate is not None
        assert self.burst is not None
        return max(0, math.floor(self.burst + 1e-6 - debt * self.rate))

    def cost(self, starts: int) -> timedelta:
        """How long it takes to earn so many tokens."""
        assert self.rate is not None
        return timedelta(seconds=starts / self.rate)


NO_NUMBERS = Numbers()


@dataclass
class Control:
    paused: bool = False
    until: datetime | None = None
    numbers: Numbers = NO_NUMBERS
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
    buckets: dict[str, datetime] = field(default_factory=dict)
    """Of keys with a rate: when all tokens taken so far will have been earned."""

    # -- pauses -----------------------------------------------------------------------------------

    def pause(self, name: Name, until: datetime | None) -> None:
        row = self.rows.setdefault(name, Control())
        row.paused, row.until = True, until

    def resume(self, name: Name, now: datetime) -> bool:
        was = self.paused(name, now)
        if name in self.rows:
            self.rows[name].paused = False
        return was

    def paused(self, name: Name, now: datetime) -> bool:
        row = self.rows.get(name)
        return row is not None and row.paused and (row.until is None or row.until > now)

    def handler_paused(self, handler: str, now: datetime) -> bool:
        """A pause of a flow's name is one of all its steps."""
        names = {handler, handler.split("/")[0]}
        return any(self.paused(("task", name), now) for name in names)

    # -- limits -----------------------------------------------------------------------------------

    def set(self, name: Name, numbers: Numbers) -> None:
        row = self.rows.setdefault(name, Control())
        self._change(name, row, numbers)
        row.by_person = True

    def _change(self, name: Name, row: Control, numbers: Numbers) -> None:
        """Moments that another rate has spent ahead say nothing of this one."""
        if numbers.rate != row.numbers.rate:
            row.spent_until = None
            if name[0] == "keys":
                gone = [key for key in self.buckets if key.startswith(f"{name[1]}/")]
                for key in gone:
                    del self.buckets[key]
        row.numbers = numbers

    def reset(self, name: Name) -> bool:
        row = self.rows.get(name)
        if row is None or not row.by_person:
            return False
        self._change(name, row, row.declared or NO_NUMBERS)
        row.spent_until, row.by_person = None, False
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
                self._change(name, row, numbers)
            elif not row.by_person:
                row.numbers = NO_NUMBERS
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

    def key_room(self, key: str, handler: str, held: int, now: datetime) -> int:
        numbers = self.numbers(("keys", handler))
        most = UNLIMITED if numbers.concurrency is None else numbers.concurrency
        room = max(0, most - held)
        if numbers.rate is None:
            return room
        return min(room, numbers.tokens(self._key_debt(key, now)))

    def key_spend(self, key: str, handler: str, starts: int, now: datetime) -> bool:
        """Whether those who are let in take tokens."""
        numbers = self.numbers(("keys", handler))
        if numbers.rate is None:
            return False
        if starts:
            debt = timedelta(seconds=self._key_debt(key, now))
            self.buckets[key] = now + debt + numbers.cost(starts)
        return True

    def _key_debt(self, key: str, now: datetime) -> float:
        return max(0.0, (self.buckets.get(key, now) - now).total_seconds())
