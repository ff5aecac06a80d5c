"""Jobs that are claimed before a slot is free, so that slots do not idle during a round trip.

A handler of a millisecond ends sooner than the round trip that claims the next job. So a worker claims
ahead twice as many jobs as its slots can start during one turn of the job loop: jobs of one claim run
while the next is under way. It is never more than `_MOST` jobs for each slot. If handlers take much
longer than a turn, the worker claims none ahead: other workers may have free slots.

- Only the shared slots have jobs ahead, and only while no limit or pause is in force, because a job
  counts as running from its claim on. In strict order there are none either.
- Queues take turns among the jobs of one claim, in proportion to their shares of it (`in_turns`).
- A job that has waited for `_LONGEST_WAIT` goes back to its queue, and no attempt is counted. Long jobs
  hold all slots then. The worker claims none ahead until short ones end again.
- A job that waits can be stopped like any other. It has not started, so a drain gives it back.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence

from headway.core.clock import monotonic
from headway.engine.running.job import RunningJob
from headway.store.rows import Claim

_MOST = 8
_LEAST = 0.5
"""Jobs ahead for each slot. With fewer it is not worth it."""
_LONGEST_WAIT = 1.0
_WEIGHT = 0.05
"""The weight of the newest time in a mean."""


class Ahead:
    """The jobs of a worker that wait for a slot, and how many may."""

    def __init__(self, slots: int, give_back: Callable[[RunningJob], None]) -> None:
        """`give_back` returns a job to its queue. The job is taken out before the call."""
        self._slots = slots
        self._give_back = give_back
        self._waiting: deque[RunningJob] = deque()
        self._handler: float | None = None
        """The mean seconds of a handler. None before the first has ended."""
        self._turn = 0.0
        """The mean seconds of a turn of the job loop that claims."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def room(self) -> int:
        """How many more jobs may be claimed ahead."""
        return max(0, self._most() - len(self._waiting))

    def _most(self) -> int:
        if self._handler is None:
            return 0
        for_each_slot = 2 * self._turn / max(self._handler, 1e-9)
        return int(self._slots * min(for_each_slot, _MOST)) if for_each_slot >= _LEAST else 0

    def turn_took(self, seconds: float) -> None:
        self._turn += (seconds - self._turn) * _WEIGHT

    def handler_took(self, seconds: float) -> None:
        mean = seconds if self._handler is None else self._handler
        self._handler = mean + (seconds - mean) * _WEIGHT

    def put(self, running: RunningJob) -> None:
        """Keep a claimed job until a slot is free."""
        self._waiting.append(running)
        if self._timer is None:
            self._arm(_LONGEST_WAIT)

    def next(self) -> RunningJob | None:
        """Take out the job that starts next, if one waits."""
        return self._waiting.popleft() if self._waiting else None

    def take(self, running: RunningJob) -> bool:
        """Take out this job. Return false if it does not wait."""
        if running.entered or running not in self._waiting:
            return False
        self._waiting.remove(running)
        return True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Give back the jobs that have waited too long."""
        self._timer, now = None, monotonic()
        while self._waiting and now - self._waiting[0].since >= _LONGEST_WAIT:
            self._handler = _LONGEST_WAIT
            self._give_back(self._waiting.popleft())
        if self._waiting:
            self._arm(self._waiting[0].since + _LONGEST_WAIT - now)


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
