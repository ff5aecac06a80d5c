"""Handing on room beside the exchange.

Room under a key is handed on by whoever frees it. While a worker finds more to claim than it has
slots for, the next of a line is in no hurry: it is let in on a connection of its own, and the
exchange, which would have done it in its own commit, goes on meanwhile. If the worker dies in
between, the room is found by the admitter of whoever has the duty, as is all that nobody speaks of.

Keys take turns in the order in which their room was freed. So what is freed while others are being
seen to stands behind them, and the exchange passes nobody; only when it cannot be done here do all of
them go back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import islice

from headway.core.clock import Clock
from headway.engine.service import Service, log
from headway.errors import HeadwayError
from headway.store import jobs
from headway.store.faults import is_about_data
from headway.store.link import Link
from headway.store.rows import Admission

KEYS_AT_ONCE = 500
"""The most keys that one round trip admits under: it holds all of their locks together, and the
server's table of locks is shared by everybody."""

Freed = dict[str, None]
"""Keys under which room was freed, or one has started, in that order: the next of each is due."""


class HandOver(Service):
    """Lets in the next of the keys that it is given."""

    def __init__(self, link: Link, clock: Clock, admitted: Callable[[Admission], None]) -> None:
        """`admitted` is told what it came to."""
        super().__init__()
        self._link = link
        self._clock = clock
        self._admitted = admitted
        self._back: Callable[[Freed], None] = lambda _: None
        self._freed = Freed()
        self.busy = False
        """Somebody stands here already."""
        self.able = True
        """It is not resting from a fault."""

    def serve(self, back: Callable[[Freed], None]) -> None:
        """What cannot be seen to here goes `back`."""
        self._back = back

    def give(self, freed: Freed) -> None:
        """Room was freed: what freed it is committed."""
        if not self.able:
            self._back(freed)
        elif freed:
            self._freed |= freed
            self.busy = True
            self.wake()

    async def turn(self) -> float | None:
        self.able, self.busy = True, bool(self._freed)
        if not self.busy:
            return None
        keys = dict.fromkeys(islice(self._freed, KEYS_AT_ONCE))
        self._freed = dict.fromkeys(islice(self._freed, KEYS_AT_ONCE, None))
        try:
            for admission in await admit(self._link, keys, self._clock):
                self._admitted(admission)
        except BaseException:
            freed, self._freed = keys | self._freed, Freed()
            self.able = self.busy = False
            self._back(freed)
            raise
        return 0

    async def close(self) -> None:
        """What was given during the last turn; what cannot be seen to now is found by others."""
        with suppress(HeadwayError):
            while await self.turn() is not None:
                pass
        await self._link.close()


async def admit(
    link: Link, keys: Collection[str], clock: Clock, *, give_way: bool = False
) -> list[Admission]:
    """Admit under these keys. A key whose data the server refuses is found by bisection and left
    out (G8)."""
    now = clock.now()
    paused = [jobs.give_way(keys, now)] if give_way else []
    try:
        *_, admission = await link.run_all(
            jobs.lock_keys(keys), *paused, jobs.admit(link.target, keys, now)
        )
    except HeadwayError as error:
        if not is_about_data(error):
            raise
        if len(keys) == 1:
            log.error("nothing can be admitted under key %r: %s", *keys, error)
            return []
        given, middle = list(keys), len(keys) // 2
        parts = given[:middle], given[middle:]
        return [
            found for part in parts for found in await admit(link, part, clock, give_way=give_way)
        ]
    return [admission]
