"""When a scan is due, and how much time scans may take.

Claims and promotions read after a cursor, and miss a job that commits late with an earlier position.
A scan finds it, but walks all dead entries at the start of the index. After a scan, the next one
waits for 20 times as long as it took. So scans take at most 5 % of the time, however many entries are
dead.

The shortest of the last three scans counts. A busy machine, a pooler or a handler that blocked the
event loop makes a single scan slow. Dead entries make every scan slow.
"""

from __future__ import annotations

from collections import deque

from headway.core.clock import monotonic

_SHARE = 20
_COMPARED = 3
_AVERAGED = 8
"""The duration of a plain claim is the moving average of about this many claims."""


class ScanBudget:
    """Says whether a scan is allowed now, from how long the last ones took."""

    def __init__(self) -> None:
        self._allowed_at = 0.0
        self._took = deque([0.0] * _COMPARED, maxlen=_COMPARED)
        """How long the last scans took, in seconds."""

    def allows(self) -> bool:
        return monotonic() >= self._allowed_at

    def wait(self) -> float:
        """Return the seconds until the next scan is allowed."""
        return max(0.0, self._allowed_at - monotonic())

    def spent(self, seconds: float, *, more: bool = False) -> None:
        """Count a scan that took this long and ended now. With `more`, add to the last one."""
        if more:
            self._took[-1] += seconds
        else:
            self._took.append(seconds)
        self._allowed_at = monotonic() + _SHARE * min(self._took)


class ScanSchedule:
    """Says when a claim scans for lanes as well: on request, or after a poll interval, within the
    budget."""

    def __init__(self) -> None:
        self.scan_due = True
        """Something happened that only a scan is sure to find."""
        self._scanned_at = monotonic()
        self._budget = ScanBudget()
        self._plain_claim = 0.0
        """The seconds that a claim takes without a scan and without reading from a start."""

    def request(self) -> None:
        self.scan_due = True

    def allows(self, poll: float) -> bool:
        """Return whether a scan is due now and within the budget."""
        return self._wanted(poll) and self._budget.allows()

    def begin(self) -> None:
        """A claim scans. A request from now on asks for another scan."""
        self.scan_due = False

    def wait(self, poll: float) -> float:
        """Return the seconds until the next scan."""
        return self._budget.wait() if self._wanted(poll) else self._until_poll(poll)

    def scanned(self) -> None:
        """The answer to a scan is here."""
        self._scanned_at = monotonic()

    def claim_took(self, seconds: float, *, scanned: bool, read_from_start: bool) -> None:
        """Count the time of a claim. A scan costs its own time and that of the reading from the
        start that it brings about."""
        if scanned or read_from_start:
            self._budget.spent(max(0.0, seconds - self._plain_claim), more=not scanned)
        else:
            self._plain_claim += (seconds - self._plain_claim) / _AVERAGED

    def _wanted(self, poll: float) -> bool:
        return self.scan_due or self._until_poll(poll) <= 0

    def _until_poll(self, poll: float) -> float:
        return self._scanned_at + poll - monotonic()
