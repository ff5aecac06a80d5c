"""When a full scan is due.

Claims and promotions read behind a cursor, which misses what commits late with an earlier place. A
full scan finds it, and walks everything that lies dead at the start of the index to do so. After
one, the next waits for 20 times as long as it took: never more than 5 % of the time goes into
them, however much lies dead. The shortest of the last three counts. A busy machine, a pooler or a
handler that held up the event loop looks the same from here, and passes. Dead entries are there the
next time, too.
"""

from __future__ import annotations

from collections import deque

from headway.core.clock import monotonic

_SHARE = 20
_COMPARED = 3


class ScanBudget:
    """Says whether a full scan is allowed now, from how long the last ones took."""

    def __init__(self) -> None:
        self._allowed_at = 0.0
        self._took = deque([0.0] * _COMPARED, maxlen=_COMPARED)
        """How long the last scans took, in seconds."""

    def allows(self) -> bool:
        return monotonic() >= self._allowed_at

    def wait(self) -> float:
        """Seconds until the next full scan is allowed."""
        return max(0.0, self._allowed_at - monotonic())

    def spent(self, seconds: float, *, more: bool = False) -> None:
        """Notes that a full scan took this long and ended now, or so much more than was noted."""
        if more:
            self._took[-1] += seconds
        else:
            self._took.append(seconds)
        self._allowed_at = monotonic() + _SHARE * min(self._took)
