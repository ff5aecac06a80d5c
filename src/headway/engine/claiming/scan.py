"""When a full scan is due.

Claims and promotions read behind a cursor, which misses what commits late with an earlier place. A
full scan finds it, and walks everything that lies dead at the start of the index to do so. After
one, the next waits for 20 times as long as it took: never more than 5 % of the time goes into
them, however much lies dead. One that was slow for once counts as the one before: a handler that held
up the event loop looks the same from here, and what lies dead is there the next time, too.
"""

from __future__ import annotations

from headway.core.clock import monotonic

_SHARE = 20


class ScanBudget:
    """Says whether a full scan is allowed now, from how long the last one took."""

    def __init__(self) -> None:
        self._allowed_at = 0.0
        self._before = 0.0
        self._took = 0.0

    def allows(self) -> bool:
        return monotonic() >= self._allowed_at

    def wait(self) -> float:
        """Seconds until the next full scan is allowed."""
        return max(0.0, self._allowed_at - monotonic())

    def spent(self, seconds: float, *, more: bool = False) -> None:
        """Notes that a full scan took this long and ended now, or so much more than was noted."""
        if more:
            self._took += seconds
        else:
            self._before, self._took = self._took, seconds
        self._allowed_at = monotonic() + _SHARE * min(self._before, self._took)
