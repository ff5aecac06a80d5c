"""The services that run `KeyAdmission`: one for freed keys, one for everything else.

They share its connection, so a worker never admits on two connections at once. They are two services
because a scan over all lines takes many round trips, and freed keys must not wait for its end.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf

from headway.core.clock import Clock, monotonic
from headway.engine.claiming.scan import ScanBudget
from headway.engine.keys.admission import KEYS_AT_ONCE, KeyAdmission
from headway.engine.maintenance.leader import LeaderService
from headway.engine.service import Service
from headway.errors import HeadwayError
from headway.store.rows import Joined
from headway.store.statements import controls, jobs

_JOBS = 1000
_JOBS_NAMED = 100
"""The most jobs whose keys are looked up at once. After more of them, all lines are scanned."""


class ParallelAdmitter(Service):
    """Admits under the freed keys of the parallel queue, while the job loop goes on.

    If the worker dies before it has admitted, the leader's scan finds the room.
    """

    def __init__(self, keys: KeyAdmission) -> None:
        super().__init__(keys.queued)
        self._keys = keys

    async def turn(self) -> float | None:
        return 0 if await self._keys.admit_queued() else None

    async def close(self) -> None:
        """Admit under the keys that came last. If that fails, the leader's scan finds them."""
        with suppress(HeadwayError):
            while await self.turn() is not None:
                pass
        await self._keys.close()


class Admitter(LeaderService):
    """Admits jobs that are new in a line. Finds room that nothing else reports: that of a cancelled or
    expired job, of a lost worker, of a consumer in SQL.

    It reads the jobs that joined a line after a cursor, and scans all lines now and then. The leader
    does it as soon as it is notified. The other workers poll, as a net. Due moments are the business
    of the worker that learned of them, leader or not.
    """

    def __init__(self, keys: KeyAdmission, clock: Clock, net: float) -> None:
        """`net` is the poll interval of a worker that is not the leader."""
        super().__init__(keys.connection, clock, keys.moments_changed)
        self._keys = keys
        self._net = net
        self.poll = net
        """The longest rest of the leader. It is shorter while no notifications arrive."""
        self._joined_to: int | None = None
        """The cursor on jobs that joined a line."""
        self._budget = ScanBudget()
        self._freed_by = set[str]()
        """Jobs whose key may have room: notifications name jobs, not keys."""
        self._pause_ends_at: float | None = None
        """When the first pause of a queue or task ends by itself. Until then its jobs are skipped."""

    def room(self, job_id: str | None) -> None:
        """The key of this job may have room, or any key."""
        if not self._leads:
            return
        if job_id is None or len(self._freed_by) >= _JOBS_NAMED:
            self._scan_due = True
        else:
            self._freed_by.add(job_id)
        self.wake()

    async def turn(self) -> float | None:
        scan = self._budget.allows()
        scan_due, self._scan_due = self._scan_due, False
        due = self._keys.take_due()
        freed_by, self._freed_by = self._freed_by, set[str]()
        try:
            if freed_by:
                keys = await self._connection.run(jobs.keys_of(freed_by))
                due.update(keys)
                # A job that was not kept has left no key, so a scan has to find the room.
                self._scan_due |= len(keys) < len(freed_by)
            await self._keys.admit(due)
            joined = await self._admit_joined()
            if scan:
                await self._scan()
        except BaseException:
            self._keys.try_again(due)
            self._scan_due |= scan_due or bool(freed_by)
            raise
        self._joined_to = self._joined_to if joined.newest is None else joined.newest
        self._scan_due |= scan_due and not scan
        return 0 if joined.count == _JOBS else self._until_next()

    async def _admit_joined(self) -> Joined:
        """Admit jobs that are new in a line. Return which there were."""
        if self._joined_to is None:
            # The scan finds the jobs that are there already. Reading them here would walk all lines.
            self._joined_to = (await self._connection.run(jobs.lanes(()))).newest
        joined = await self._connection.run(jobs.joined(self._joined_to, _JOBS))
        await self._keys.admit(joined.keys)
        return joined

    async def _scan(self) -> None:
        """Find jobs that joined late with an earlier seq, and room without a notification."""
        began, key = monotonic(), ""
        in_force = await self._connection.run(controls.read(self._clock.now()))
        ends_in = controls.first_end(row for row in in_force if row.kind in ("queue", "task"))
        self._pause_ends_at = None if ends_in is None else began + ends_in
        while True:
            lines = await self._connection.run(jobs.lines(key, KEYS_AT_ONCE, self._clock.now()))
            await self._keys.admit(line.key for line in lines if line.room)
            self._keys.expect({line.key: line.room_in for line in lines if line.room_in})
            if len(lines) < KEYS_AT_ONCE:
                break
            key = lines[-1].key
        self._budget.spent(monotonic() - began)

    def _until_next(self) -> float:
        rests = [self.poll if self._leads else self._net]
        if self._leads and self._scan_due:
            rests.append(self._budget.wait())
        due_in = self._keys.next_due_in()
        if due_in is not None:
            rests.append(due_in)
        # A pause may have ended in this very turn. Then a scan is due as soon as the budget allows one.
        pause_ends_in = inf if self._pause_ends_at is None else self._pause_ends_at - monotonic()
        return min(*rests, max(pause_ends_in, self._budget.wait()))
