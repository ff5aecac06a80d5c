"""Services that the leader of the fleet runs.

One worker at a time is the leader. It holds a row of the table `leader`, under a lease that its
heartbeat renews (heartbeat.py). The leader acts as soon as it is notified. Some services of the other
workers poll as well, as a net.
"""

from __future__ import annotations

import asyncio

from headway.core.clock import Clock
from headway.engine.service import Service
from headway.store.connections.engine_connection import EngineConnection


class LeaderService(Service):
    """A service that does more, or anything at all, while this worker is the leader."""

    def __init__(
        self, connection: EngineConnection, clock: Clock, woken: asyncio.Event | None = None
    ) -> None:
        super().__init__(woken)
        self._connection = connection
        self._clock = clock
        self._leads = False
        self._scan_due = False
        """Something happened that only a full scan is sure to find."""

    def lead(self, leads: bool) -> None:
        """This worker is the leader, or is not."""
        if leads and not self._leads:
            self._scan_due = True
            self.wake()
        self._leads = leads

    def hint(self) -> None:
        """There may be something to do for the leader."""
        if self._leads:
            self._scan_due = True
            self.wake()
