"""Room under concurrency keys: which keys have some, when more is due, and who gets it.

A blocked job becomes ready when its key has room. Room is freed by:

- a verdict that the job loop settles;
- a handler's own transaction, or an isolated child;
- a job that started under a key of which more than one may be ready;
- another worker, a consumer in SQL, a cancellation, an expiry (the leader's admitter finds these).

`KeyAdmission` decides for each freed key whether the job loop admits the next job in its own commit,
where it can be claimed at once, or a service in parallel with it (admitting.py). The job loop leaves
it to the service while it finds more to claim than it has slots: then the next job is not urgent.

Invariants, which every method keeps:

K1  A freed key is in one place: waiting (`_freed`), in a round trip of the job loop (`FreedKeys`), or
    in the parallel queue. It leaves when a commit has admitted under it. A fault before that returns
    it to the front of `_freed`.
K2  Keys take turns in the order in which their room was freed. While the parallel queue has keys, newly
    freed keys go after them, and the job loop admits none in its commit, except for its last one.
K3  A key enters the parallel queue only after the transaction that freed its room has committed.
K4  After a fault the parallel queue is closed, and empty, until its service runs again. Meanwhile the
    job loop admits.
K5  One transaction admits under at most `KEYS_AT_ONCE` keys.
K6  Outside the job loop's commits a worker admits on one connection, one transaction at a time. Two
    at once would draw seqs out of order, and a cursor could skip some.
K7  The planner learns the first seq of each lane that was admitted on that connection, and moves its
    cursors back to it (cursors.py, C4).
K8  A moment at which a key will have room is kept until it has come. Then the key is admitted under,
    or tried again after a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from headway.core.clock import Clock, monotonic
from headway.engine.claiming.planner import ClaimPlanner
from headway.engine.service import log
from headway.errors import HeadwayError
from headway.store.connections.engine_connection import EngineConnection
from headway.store.documents import Settled
from headway.store.faults import is_about_data
from headway.store.rows import Admission, Claim, Lane
from headway.store.statements import jobs

KEYS_AT_ONCE = 500
"""The most keys under which one transaction admits. It holds the locks of all of them, and the server's
lock table is shared by every session."""

Keys = dict[str, None]
"""An ordered set of keys."""


@dataclass(frozen=True, slots=True)
class FreedKeys:
    """The freed keys that one round trip of the job loop takes care of."""

    keys: Keys = field(default_factory=Keys)
    in_commit: Keys = field(default_factory=Keys)
    """Those under which the round trip itself admits. The rest waits for another one, or goes to the
    parallel queue after the commit."""
    in_parallel: bool = False

    def __bool__(self) -> bool:
        return bool(self.keys)


class KeyAdmission:
    """Owns the freed keys of a worker, their due moments, and the connection that admits."""

    def __init__(
        self,
        connection: EngineConnection,
        clock: Clock,
        planner: ClaimPlanner,
        wake_job_loop: Callable[[], None],
    ) -> None:
        self.connection = connection
        self._clock = clock
        self._planner = planner
        self._wake_job_loop = wake_job_loop
        self._freed = Keys()
        self._parallel = Keys()
        self._is_open = True
        self._is_busy = False
        """The parallel queue has keys, or its service is admitting under some."""
        self.queued = asyncio.Event()
        """Wakes the service of the parallel queue."""
        self._room_at: dict[str, float] = {}
        """When each key has its next token, or its pause ends."""
        self._overdue = set[str]()
        """Keys whose moment has come, and under which admitting has failed."""
        self.moments_changed = asyncio.Event()
        """Wakes the service that waits for due moments."""

    # -- freed keys, and the job loop -------------------------------------------------------------

    def free(self, key: str) -> None:
        """Room under this key was freed in another transaction, which has committed."""
        self._freed[key] = None
        self._wake_job_loop()

    def started(self, claims: Iterable[Claim]) -> None:
        """These jobs start. Some of them let the next of their key become ready."""
        self._freed.update((claim.key, None) for claim in claims if claim.opens and claim.key)

    def take(self, batch: Iterable[Settled], *, claim_was_full: bool) -> FreedKeys:
        """Return the keys for the next round trip of the job loop, which settles `batch`. Call
        `committed`, `undo` or `refused` afterwards."""
        freed, self._freed = self._freed, Keys()
        freed.update((key, None) for key in self._touched_by(batch))
        if self._is_open and (claim_was_full or self._is_busy):
            return FreedKeys(freed, Keys(), in_parallel=True)
        return FreedKeys(freed, _first(freed))

    def take_last(self) -> FreedKeys:
        """Return the keys that the job loop admits under before it ends."""
        freed, self._freed = self._freed, Keys()
        return FreedKeys(freed, _first(freed))

    def committed(self, taken: FreedKeys, admission: Admission | None) -> None:
        """The round trip has committed."""
        if admission is not None:
            self.expect(admission.room_in)
        if taken.in_parallel:
            self._queue(taken.keys)
        else:
            self._freed = _without(taken.keys, taken.in_commit) | self._freed

    def undo(self, taken: FreedKeys) -> None:
        """The round trip has failed: its keys come first in the next one."""
        self._freed = taken.keys | self._freed

    def refused(self, taken: FreedKeys) -> None:
        """The server refused the data of a round trip that was undone. If its keys caused that, the
        parallel queue finds out which of them did."""
        if taken.in_commit and self._is_open:
            self._freed = _without(self._freed, taken.in_commit)
            self._queue(taken.in_commit)

    def _touched_by(self, batch: Iterable[Settled]) -> Iterable[str]:
        """Return the keys under which a batch may free room, in the order of its verdicts."""
        touching = [
            settled
            for settled in batch
            if settled.claim.key is not None or settled.verdict.advance is not None
        ]
        for queue, priority in {(one.claim.queue, one.claim.priority) for one in touching}:
            # The job that gets the room, or the next step, is probably in the same lane.
            self._planner.hint(Lane(queue, priority))
        return (key for settled in touching for key in settled.touched_keys)

    # -- the parallel queue -----------------------------------------------------------------------

    async def admit_queued(self) -> bool:
        """Admit under the first keys of the parallel queue. Return false if it is empty."""
        self._is_open, self._is_busy = True, bool(self._parallel)
        if not self._is_busy:
            return False
        keys = _first(self._parallel)
        self._parallel = _without(self._parallel, keys)
        try:
            await self._admit(keys)
        except BaseException:
            keys, self._parallel = keys | self._parallel, Keys()
            self._is_open = self._is_busy = False
            self._return(keys)
            raise
        return True

    def _queue(self, keys: Keys) -> None:
        if not self._is_open:
            self._return(keys)
        elif keys:
            self._parallel |= keys
            self._is_busy = True
            self.queued.set()

    def _return(self, keys: Keys) -> None:
        self._freed = keys | self._freed
        self._wake_job_loop()

    # -- due moments ------------------------------------------------------------------------------

    def expect(self, room_in: Mapping[str, float]) -> None:
        """These keys will have room in this many seconds."""
        now = monotonic()
        for key, seconds in room_in.items():
            self._room_at[key] = now + seconds
        if room_in:
            self.moments_changed.set()

    def take_due(self) -> set[str]:
        """Return the keys whose moment has come. Call `try_again` if they could not be admitted under."""
        now = monotonic()
        due = {key for key, moment in self._room_at.items() if moment <= now}
        self._room_at = {key: at for key, at in self._room_at.items() if key not in due}
        due |= self._overdue
        self._overdue = set[str]()
        return due

    def try_again(self, keys: Iterable[str]) -> None:
        """These keys are due again: admitting under them has failed."""
        self._overdue.update(keys)

    def next_due_in(self) -> float | None:
        """Return the seconds until the next key is due; None if none is."""
        if not self._room_at:
            return None
        return max(0.0, min(self._room_at.values()) - monotonic())

    # -- admitting --------------------------------------------------------------------------------

    async def admit(self, keys: Iterable[str]) -> None:
        """Admit under these keys. Ready jobs that are paused first give their room back, if other
        jobs of their key can run."""
        waiting = sorted(keys)
        for start in range(0, len(waiting), KEYS_AT_ONCE):
            await self._admit(waiting[start : start + KEYS_AT_ONCE], unadmit=True)

    async def close(self) -> None:
        await self.connection.close()

    async def _admit(self, keys: Collection[str], *, unadmit: bool = False) -> None:
        for admission in await self._admissions([*keys], unadmit=unadmit):
            self.expect(admission.room_in)
            for lane, seq in admission.places.items():
                if self._planner.hint(lane, seq):
                    self._wake_job_loop()

    async def _admissions(self, keys: Sequence[str], *, unadmit: bool) -> list[Admission]:
        """Admit under these keys. If the server refuses the data, find the bad key by bisection, and
        leave it out (G8)."""
        now = self._clock.now()
        paused = [jobs.unadmit(keys, now)] if unadmit else []
        admit = jobs.admit(self.connection.target, keys, now)
        try:
            *_, admission = await self.connection.run_all(jobs.lock_keys(keys), *paused, admit)
        except HeadwayError as error:
            if not is_about_data(error):
                raise
            if len(keys) == 1:
                log.error("cannot admit jobs under key %r: %s", *keys, error)
                return []
            middle = len(keys) // 2
            parts = keys[:middle], keys[middle:]
            return [one for part in parts for one in await self._admissions(part, unadmit=unadmit)]
        return [admission]


def _first(keys: Keys) -> Keys:
    return dict.fromkeys(islice(keys, KEYS_AT_ONCE))


def _without(keys: Keys, others: Keys) -> Keys:
    return dict.fromkeys(key for key in keys if key not in others) if others else keys
