"""Promotion: scheduled jobs become ready at their moment."""

from __future__ import annotations

from datetime import datetime

from headway.core.clock import Clock, monotonic
from headway.engine.claiming.scan import ScanBudget
from headway.engine.maintenance.leader import LeaderService
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statements import jobs

_BATCH = 1000


class Promoter(LeaderService):
    """Makes scheduled jobs ready.

    The leader sleeps until exactly the next moment. The other workers poll, as a net.
    """

    def __init__(self, connection: EngineConnection, clock: Clock, net: float) -> None:
        """`net` is the poll interval of a worker that is not the leader."""
        super().__init__(connection, clock)
        self._net = net
        self.poll = net
        """The longest rest of the leader. It is shorter while no notifications arrive."""
        self._since: datetime | None = None
        self._budget = ScanBudget()

    async def turn(self) -> float | None:
        began, scan = monotonic(), self._budget.allows()
        scan_due, self._scan_due = self._scan_due, False
        since = None if scan else self._since
        try:
            promoted = await self._connection.run(
                jobs.promote(self._connection.target, since, _BATCH, self._clock.now())
            )
        except BaseException:
            self._scan_due |= scan_due
            raise
        if scan:
            self._budget.spent(monotonic() - began)
        self._since = promoted.last_run_at or self._since
        self._scan_due |= scan_due and not scan
        if promoted.count == _BATCH:
            return 0
        if not self._leads:
            return self._net
        due_in = self.poll if promoted.next_due_in is None else promoted.next_due_in
        return min(due_in, self.poll, self._budget.wait() if self._scan_due else self.poll)
