"""Letting blocked jobs in: what joined the line of a key becomes ready as far as there is room.

Who frees room hands it on in the same transaction (exchange.py). This is for the rest: jobs that are
new in a line, and room that was freed where nobody could hand it on (a cancelled or expired job, a
lost worker, a consumer in SQL).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf

from headway.core.clock import Clock, monotonic
from headway.engine.claiming.scan import ScanBudget
from headway.engine.keys.handoff import KEYS_AT_ONCE, admit
from headway.engine.maintenance.sweeps import Duty
from headway.store import controls, jobs
from headway.store.link import Link
from headway.store.rows import Admission, Lane

_JOBS = 1000
_JOBS_NAMED = 100
"""The most jobs whose keys are looked up at once. After more of them, all lines are scanned."""


class Admitter(Duty):
    """Admits behind a cursor on what joined the lines; now and then it looks at every line.

    The worker on duty does it when it hears of something; the others look now and then, as a net.
    """

    def __init__(
        self, link: Link, clock: Clock, net: float, ready: Callable[[Lane, int], None]
    ) -> None:
        """`ready` is told of a lane in which there is something now, from a place on."""
        super().__init__(link, clock)
        self._ready = ready
        self._net = net
        self.poll = net
        """How long the worker on duty sleeps at most: less where nothing new is heard of."""
        self._since: int | None = None
        self._budget = ScanBudget()
        self._rooms = set[str]()
        """Keys under which there may be room."""
        self._freed_by = set[str]()
        """Jobs under whose keys there may be room: notifications name jobs, not keys."""
        self._room_at: dict[str, float] = {}
        """When keys have their next token, or a pause ends; for whoever learned of it, on duty or not."""
        self._opens_at: float | None = None
        """When the first pause of a queue or task ends by itself: till then its jobs are passed by."""

    def room(self, job_id: str | None) -> None:
        """There may be room under the key of a job, or of any."""
        if not self._on_duty:
            return
        if job_id is None or len(self._freed_by) >= _JOBS_NAMED:
            self._owed = True
        else:
            self._freed_by.add(job_id)
        self.wake()

    def admitted(self, admission: Admission) -> None:
        """Takes in what admitting came to."""
        self.expect(admission.room_in)
        for lane, place in admission.places.items():
            self._ready(lane, place)

    def expect(self, room_in: Mapping[str, float]) -> None:
        """Takes in when there will be room for the next in line of these keys."""
        now = monotonic()
        for key, seconds in room_in.items():
            self._room_at[key] = now + seconds
        if room_in:
            self.wake()

    async def turn(self) -> float | None:
        full = self._budget.allows()
        owed, self._owed = self._owed, False
        rooms, self._rooms = self._rooms | self._take_due(), set[str]()
        freed_by, self._freed_by = self._freed_by, set[str]()
        try:
            if freed_by:
                keys = await self._link.run(jobs.keys_of(freed_by))
                rooms.update(keys)
                # A job that was not kept has left no key behind: a scan finds the room.
                self._owed |= len(keys) < len(freed_by)
            await self._admit(rooms)
            if self._since is None:
                # What is there already is for the look at all lines, which hops; this would walk them.
                self._since = (await self._link.run(jobs.lanes(()))).newest
            joined = await self._link.run(jobs.joined(self._since, _JOBS))
            await self._admit(joined.keys)
            if full:
                await self._look_at_all()
        except BaseException:
            self._rooms |= rooms
            self._owed |= owed or bool(freed_by)
            raise
        self._since = self._since if joined.newest is None else joined.newest
        self._owed |= owed and not full
        if joined.count == _JOBS:
            return 0
        rest = self.poll if self._on_duty else self._net
        if self._on_duty and self._owed:
            rest = min(rest, self._budget.wait())
        if self._room_at:
            rest = min(rest, max(0.0, min(self._room_at.values()) - monotonic()))
        # When a pause has ended, maybe in this very turn, a look is due as soon as the budget allows one.
        return min(rest, max(self._opens_in(), self._budget.wait()))

    def _opens_in(self) -> float:
        return inf if self._opens_at is None else self._opens_at - monotonic()

    def _take_due(self) -> set[str]:
        """The keys whose moment has come."""
        now = monotonic()
        due = {key for key, moment in self._room_at.items() if moment <= now}
        self._room_at = {key: at for key, at in self._room_at.items() if key not in due}
        return due

    async def _look_at_all(self) -> None:
        """Finds what joined late with an earlier place, and room that nobody spoke of."""
        began, key = monotonic(), ""
        said = await self._link.run(controls.read(self._clock.now()))
        ends_in = controls.first_end(row for row in said if row.kind in ("queue", "task"))
        self._opens_at = None if ends_in is None else began + ends_in
        while True:
            lines = await self._link.run(jobs.lines(key, KEYS_AT_ONCE, self._clock.now()))
            await self._admit(line.key for line in lines if line.room)
            self.expect({line.key: line.room_in for line in lines if line.room_in})
            if len(lines) < KEYS_AT_ONCE:
                break
            key = lines[-1].key
        self._budget.spent(monotonic() - began)

    async def _admit(self, keys: Iterable[str]) -> None:
        """A bounded number of keys at a time: their locks are held together."""
        waiting = sorted(keys)
        for start in range(0, len(waiting), KEYS_AT_ONCE):
            some = waiting[start : start + KEYS_AT_ONCE]
            for admission in await admit(self._link, some, self._clock, give_way=True):
                self.admitted(admission)
