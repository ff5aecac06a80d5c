"""Handing on room beside the exchange.

Room under a key is handed on by whoever frees it. While a worker finds more to claim than it has
slots for, the next of a line is in no hurry: it is let in on a connection of its own, and the
exchange, which would have done it in its own commit, goes on meanwhile. If the worker dies in
between, the room is found by the admitter of whoever has the duty, as is all that nobody speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from headway.core.clock import Clock
from headway.engine.service import Service
from headway.errors import HeadwayError
from headway.store import jobs
from headway.store.link import Link
from headway.store.rows import Lane

_KEYS = 500
"""At a time: their locks are held together."""


@dataclass(slots=True)
class Freed:
    """Keys under which room was freed, or one has started, in that order: the next of each is due."""

    keys: dict[str, None] = field(default_factory=dict[str, None])
    lanes: set[Lane] = field(default_factory=set[Lane])
    """Where those who are let in most likely stand."""

    def add(self, keys: Iterable[str], lanes: Iterable[Lane] = ()) -> None:
        self.keys.update(dict.fromkeys(keys))
        self.lanes.update(lanes)

    def put_back(self, earlier: Freed) -> None:
        """Those could not be seen to: they come first."""
        self.keys = earlier.keys | self.keys
        self.lanes |= earlier.lanes

    def take(self, most: int | None = None) -> Freed:
        """The first of them, or all."""
        taken = Freed(dict.fromkeys(islice(self.keys, most)), self.lanes)
        self.keys = dict.fromkeys(islice(self.keys, len(taken.keys), None))
        self.lanes = set[Lane]()
        return taken


class HandOver(Service):
    """Lets in the next of the keys that it is given."""

    def __init__(
        self,
        link: Link,
        clock: Clock,
        *,
        room_in: Callable[[Mapping[str, float]], None],
        ready: Callable[[Lane], None],
    ) -> None:
        """`room_in` is told of keys that will have room, and in how many seconds; `ready` of a lane where
        there may be more now."""
        super().__init__()
        self._link = link
        self._clock = clock
        self.room_in = room_in
        self._ready = ready
        self._freed = Freed()

    def give(self, freed: Freed) -> None:
        """Room was freed: what freed it is committed."""
        self._freed.add(freed.keys, freed.lanes)
        self.wake()

    async def turn(self) -> float | None:
        if not self._freed.keys:
            return None
        freed = self._freed.take(_KEYS)
        try:
            _, admission = await self._link.run_all(
                jobs.lock_keys(freed.keys),
                jobs.admit(self._link.target, freed.keys, self._clock.now()),
            )
        except BaseException:
            self._freed.put_back(freed)
            raise
        self.room_in(admission.room_in)
        for lane in freed.lanes:
            self._ready(lane)
        return 0

    async def close(self) -> None:
        """What was given during the last turn; what cannot be seen to now is found by others."""
        with suppress(HeadwayError):
            while await self.turn() is not None:
                pass
        await self._link.close()
