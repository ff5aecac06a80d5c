"""When a full scan is due.

Claims and promotions read behind a cursor, which misses what commits late with an earlier place. A
full scan finds it, and walks everything that lies dead at the start of the index to do so. After
one, the next waits for 20 times as long as it took: never more than 5 % of the time goes into
them, however much lies dead.
"""

from __future__ import annotations

from headway.core.clock import monotonic

_SHARE = 20


class ScanBudget:
    """Says whether a full scan is allowed now, from how long the last one took."""

    def __init__(self) -> None:
        self._allowed_at = 0.0

    def allows(self) -> bool:
        return monotonic() >= self._allowed_at

    def wait(self) -> float:
        """Seconds until the next full scan is allowed."""
        return max(0.0, self._allowed_at - monotonic())

    def spent(self, seconds: float) -> None:
        """Notes that a full scan took this long and ended now."""
        self._allowed_at = monotonic() + _SHARE * seconds
