"""Jobs that are claimed before a slot is free, so that slots do not idle during a round trip.

A handler of a millisecond ends sooner than the round trip that claims the next job. So a worker claims
ahead twice as many jobs as its slots can start during one turn of the job loop: jobs of one claim run
while the next is under way. It is never more than `_MOST` jobs for each slot. If handlers take much
longer than a turn, the worker claims none ahead: other workers may have free slots.

- Only the shared slots have jobs ahead, and only while no limit or pause is in force, because a job
  counts as running from its claim on. In strict order there are none either.
- Queues take turns among the jobs of one claim, in proportion to their shares of it (`in_turns`). At the
  turn of a queue its job with the highest priority starts.
- The worker claims none ahead before it has seen `_SAMPLES` handlers end, or while none ends: then long
  jobs may hold all slots.
- A job that has waited for `_LONGEST_WAIT` goes back to its queue, and no attempt is counted. Long jobs
  hold all slots then. The worker claims none ahead until short ones end again.
- A job that waits can be stopped like any other. It has not started, so a drain gives it back.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

from headway.core.clock import monotonic
from headway.engine.running.job import RunningJob
from headway.store.rows import Claim

_MOST = 8
_LEAST = 0.5
"""Jobs ahead for each slot. With fewer it is not worth it."""
_SAMPLES = 20
_RECENT = 0.05
"""Seconds since the last handler ended. If it is longer ago, handlers are not short now."""
_LONGEST_WAIT = 1.0
_WEIGHT = 0.05
"""The weight of the newest time in a mean."""


class Ahead:
    """The jobs of a worker that wait for a slot, and how many may."""

    def __init__(self, slots: int, give_back: Callable[[RunningJob], None]) -> None:
        """`give_back` returns a job to its queue. The job is taken out before the call."""
        self._slots = slots
        self._give_back = give_back
        self._turns: deque[str] = deque()
        """The queue of each job that waits, in the order of their turns."""
        self._waiting = defaultdict[str, list[tuple[int, int, RunningJob]]](list)
        """A heap for each queue: by priority, then in the order of arrival."""
        self._number = count()
        self._samples = 0
        self._handler = 0.0
        """The mean seconds of a handler."""
        self._ended_at = 0.0
        self._turn = 0.0
        """The mean seconds of a turn of the job loop that claims."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def room(self) -> int:
        """How many more jobs may be claimed ahead."""
        return max(0, self._most() - len(self._turns))

    def _most(self) -> int:
        if self._samples < _SAMPLES or monotonic() - self._ended_at > _RECENT:
            return 0
        for_each_slot = 2 * self._turn / max(self._handler, 1e-9)
        return int(self._slots * min(for_each_slot, _MOST)) if for_each_slot >= _LEAST else 0

    def turn_took(self, seconds: float) -> None:
        self._turn += (seconds - self._turn) * _WEIGHT

    def handler_ended(self, since: float) -> None:
        """A handler ended that had started at `since`."""
        self._ended_at = now = monotonic()
        self._samples += 1
        self._handler += (now - since - self._handler) * max(_WEIGHT, 1 / self._samples)

    def put(self, running: RunningJob) -> None:
        """Keep a claimed job until a slot is free."""
        claim = running.claim
        self._turns.append(claim.queue)
        heappush(self._waiting[claim.queue], (-claim.priority, next(self._number), running))
        if self._timer is None:
            self._arm(_LONGEST_WAIT)

    def next(self) -> RunningJob | None:
        """Take out the job that starts next, if one waits."""
        if not self._turns:
            return None
        queue = self._turns.popleft()
        heap = self._waiting[queue]
        running = heappop(heap)[2]
        if not heap:
            del self._waiting[queue]
        return running

    def take(self, running: RunningJob) -> bool:
        """Take out this job. Return false if it does not wait."""
        queue = running.claim.queue
        heap = self._waiting.get(queue, [])
        kept = [entry for entry in heap if entry[2] is not running]
        if len(kept) == len(heap):
            return False
        heapify(kept)
        if kept:
            self._waiting[queue] = kept
        else:
            del self._waiting[queue]
        self._turns.remove(queue)
        return True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Give back the jobs that have waited too long."""
        self._timer, now = None, monotonic()
        waiting = [entry[2] for heap in self._waiting.values() for entry in heap]
        for running in waiting:
            if now - running.since >= _LONGEST_WAIT and self.take(running):
                self._samples = 0
                self._give_back(running)
        if self._turns:
            self._arm(_LONGEST_WAIT / 2)


def in_turns(claims: Sequence[Claim]) -> Sequence[Claim]:
    """Return the jobs of a claim so that queues take turns. Within a queue the order stays."""
    count, seen = Counter(claim.queue for claim in claims), Counter[str]()
    if len(count) == 1:
        return claims
    places = list[float]()
    for claim in claims:
        seen[claim.queue] += 1
        places.append(seen[claim.queue] / count[claim.queue])
    return [claims[number] for number in sorted(range(len(claims)), key=places.__getitem__)]
