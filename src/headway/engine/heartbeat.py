"""Renews the worker's lease, and knows when the lease can no longer be trusted.

The lease in the database begins no earlier than the moment at which the heartbeat was sent. So the worker
trusts it for one lease from then, less a margin, by its own monotonic clock. It stops its handlers before
another worker may start their jobs, whether or not it can reach the database. It stops claiming at the
first heartbeat that fails.

A heartbeat does not read or lock jobs, so nothing that happens to that table delays it. stops.py checks
the claims.
"""

from __future__ import annotations

import asyncio
import random
from typing import Protocol

from headway.core.clock import Clock, monotonic
from headway.core.duration import in_words
from headway.engine.service import Service, log
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statement import Statement
from headway.store.statements import fleet

_BEATS_PER_LEASE = 3
_LONGEST_REST = 10.0
"""At most this many seconds between beats, however long the lease. A beat is also how a worker notices a
dead connection."""
_MARGIN = 0.1
_HINTED_EVERY = 0.1
"""At least this many seconds between beats that follow hints: anybody can send hints."""


def beat_every(lease: float) -> float:
    """Return the seconds between two beats. A beat may also wait that long for its answer."""
    return min(lease / _BEATS_PER_LEASE, _LONGEST_REST)


class LeaseListener(Protocol):
    """Reacts to changes of a worker's lease."""

    def register(self, was: int | None) -> Statement[int]:
        """Return the statement that registers the worker. `was` is the id that it had before."""
        ...

    def says(self) -> tuple[bool | None, str | None]:
        """Return whether the worker is notified, and what is wrong with it."""
        ...

    def trust(self, worker_id: int) -> None:
        """Claim under this id. 0 stands for no claims."""

    def lead(self, ours: bool) -> None:
        """The worker is the leader, or is not."""

    def lose(self) -> None:
        """The lease cannot be trusted: jobs that run here may be given to other workers."""

    def reconnect(self, moved: bool) -> None:
        """Older connections may never answer. `moved`: they lead to another server."""

    def drain(self) -> None:
        """An operator asked the worker to drain."""


class Heartbeat(Service):
    """Registers the worker, renews its row, and registers it again if the row was lost."""

    def __init__(
        self,
        link: EngineConnection,
        clock: Clock,
        lease: float,
        owner: LeaseListener,
    ) -> None:
        super().__init__()
        self._link = link
        self._clock = clock
        self._lease = lease
        self._owner = owner
        self._failed = False
        self._alarm: asyncio.TimerHandle | None = None
        self._lost_id: int | None = None
        self._server: str | None = None
        self._tried_at = -_HINTED_EVERY
        self._hinted = False
        self.beaten_at: float | None = None
        """When the last beat with a timely answer was sent."""
        self.worker_id = 0

    def hint(self) -> None:
        """Beat soon: an operator may have asked the worker to drain."""
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
                self.worker_id = await self._link.run(self._owner.register(self._lost_id))
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
        listening, trouble = self._owner.says()
        now = self._clock.now()
        beat = fleet.heartbeat(
            self.worker_id, self._lease, now, listening=listening, trouble=trouble
        )
        found: fleet.Beat | None = await self._link.run(beat)
        if found is None:
            log.error("worker %d lost its lease; registering again", self.worker_id)
            self._expire()
            return 0
        moved = self._server not in (None, found.server)
        if self._failed or moved:
            self._failed = False
            self._owner.reconnect(moved)
        self._server = found.server
        self.beaten_at = sent_at
        self._renewed(sent_at)
        self._owner.lead(found.leads)
        if found.draining:
            self._owner.drain()
        rest = beat_every(self._lease)
        if found.leads or found.leader_expires_in is None:
            return rest
        # If the leader is silent, take over when its lease ends, not a beat later.
        return min(rest, max(0.05, found.leader_expires_in + random.uniform(0.02, 0.1)))

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
            "worker %d cannot trust its lease: no heartbeat was answered for %s; stopping its jobs, "
            "which other workers may run, and registering again",
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
