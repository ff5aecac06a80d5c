"""Keeping the lease, and knowing when it can no longer be trusted.

The lease in the database runs from a moment no earlier than the one at which the heartbeat was sent.
So this worker trusts it for one lease from then, less a margin, by its own monotonic clock, and
stops its handlers before anyone else may start them, whether or not the database can be reached. It
stops claiming at the first heartbeat that fails.

A heartbeat reads and locks no job: whatever happens to that table, the lease is renewed (stops.py looks
after the claims).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from headway.core.clock import Clock, monotonic
from headway.core.duration import in_words
from headway.engine.service import Service, log
from headway.store import fleet
from headway.store.link import Link
from headway.store.statement import Statement

_BEATS_PER_LEASE = 3
_LONGEST_REST = 10.0
"""Seconds between beats at most, however long the lease is: a beat is also how a worker notices a
connection that leads nowhere."""
_MARGIN = 0.1
_HINTED_EVERY = 0.1
"""Seconds between beats that somebody hints at: anybody can send hints."""


def beat_every(lease: float) -> float:
    """Return the seconds between two beats, which is also how long one may wait for its answer."""
    return min(lease / _BEATS_PER_LEASE, _LONGEST_REST)


class Lease(Protocol):
    """Who is told about a worker's lease."""

    def trust(self, worker_id: int) -> None:
        """Claims are made by this id; 0 for no claims."""

    def lead(self, ours: bool) -> None:
        """The worker is the leader, or is not."""

    def lose(self) -> None:
        """The lease cannot be trusted: what runs here may be given to others."""

    def reconnect(self, moved: bool) -> None:
        """Connections made before may wait for answers that never come. `moved`: they lead to
        another server."""

    def drain(self) -> None:
        """Somebody asked the worker to drain."""


class Heartbeat(Service):
    """Registers the worker, keeps its one row alive, and registers it anew if that was lost."""

    def __init__(
        self,
        link: Link,
        clock: Clock,
        lease: float,
        *,
        register: Callable[[int | None], Statement[int]],
        says: Callable[[], tuple[bool | None, str | None]],
        owner: Lease,
    ) -> None:
        """`register` makes the statement that registers the worker, given the id that the process
        had before. `says` is what is to be noted of this worker: whether it listens, and what is wrong
        with it."""
        super().__init__()
        self._link = link
        self._clock = clock
        self._lease = lease
        self._register = register
        self._says = says
        self._owner = owner
        self._failed = False
        self._alarm: asyncio.TimerHandle | None = None
        self._lost_id: int | None = None
        self._server: str | None = None
        self._tried_at = -_HINTED_EVERY
        self._hinted = False
        self.beaten_at: float | None = None
        """When the last beat that was answered in time was sent."""
        self.worker_id = 0

    def hint(self) -> None:
        """Beat soon: somebody may have asked the worker to drain."""
        self._hinted = True
        self.wake()

    async def turn(self) -> float | None:
        sent_at = monotonic()
        hinted, self._hinted = self._hinted, False
        if hinted and sent_at < self._tried_at + _HINTED_EVERY:
            self._hinted = True
            return self._tried_at + _HINTED_EVERY - sent_at
        self._tried_at = sent_at
        try:
            if self.worker_id == 0:
                self.worker_id = await self._link.run(self._register(self._lost_id))
            return await self._beat(sent_at)
        except BaseException:
            self._failed = True
            self._owner.trust(0)
            raise

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        await self._link.close()

    async def _beat(self, sent_at: float) -> float:
        listening, trouble = self._says()
        now = self._clock.now()
        beat = fleet.heartbeat(
            self.worker_id, self._lease, now, listening=listening, trouble=trouble
        )
        found: fleet.Beat | None = await self._link.run(beat)
        if found is None:
            log.error("worker %d lost its lease; it registers again", self.worker_id)
            self._expire()
            return 0
        moved = self._server not in (None, found.server)
        if self._failed or moved:
            self._failed = False
            self._owner.reconnect(moved)
        self._server = found.server
        self.beaten_at = sent_at
        self._renewed(sent_at)
        self._owner.lead(found.duty)
        if found.draining:
            self._owner.drain()
        rest = beat_every(self._lease)
        if found.duty or found.duty_runs_for is None:
            return rest
        # Leadership whose holder went silent is taken over when its lease ends, not a beat later.
        return min(rest, max(0.05, found.duty_runs_for + random.uniform(0.02, 0.1)))

    def _renewed(self, since: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        trusted_until = since + self._lease * (1 - _MARGIN)
        self._alarm = asyncio.get_running_loop().call_later(
            trusted_until - monotonic(), self._overdue
        )
        self._owner.trust(self.worker_id)

    def _overdue(self) -> None:
        silent = monotonic() - (self.beaten_at or monotonic())
        log.error(
            "worker %d cannot trust its lease: no heartbeat was answered for %s; it stops its jobs, "
            "which others may run, and registers again",
            self.worker_id,
            in_words(silent),
        )
        self._expire()

    def _expire(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self.worker_id:
            self._lost_id = self.worker_id
        self.worker_id = 0
        self._owner.trust(0)
        self._owner.lead(False)
        self._owner.lose()
        self._owner.reconnect(False)
        self.wake()
