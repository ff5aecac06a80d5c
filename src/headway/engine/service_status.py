"""Records how the turns of a service end: since when they fail, how often and why. Logs it.

The first failure is logged at once, repetitions every few seconds at most, with a count. After a lease of
failures the log has an ERROR. It also says when the service works again. Other threads may read the
record.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from headway.core.clock import monotonic
from headway.core.duration import in_words
from headway.errors import HeadwayError

log = logging.getLogger("headway.worker")

_LEASE = 30.0
_REPEATED_EVERY = 10.0
_MOST_TEXTS = 16
_LONGEST_TEXT = 300


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The status of one service at one moment."""

    service: str
    failing_for: float = 0.0
    """Seconds since the start of the first failed turn in a row; 0 if the last turn succeeded."""
    busy_for: float = 0.0
    """Seconds since the current turn began; 0 between turns, or if turns may last for any time."""
    failures: int = 0
    """How many turns failed in a row."""
    failed_in_all: int = 0
    kind: str = ""
    """The class of the last error, and its SQLSTATE. It contains no host, user or value."""
    error: str = ""
    """The last error, shortened."""

    @property
    def unwell_for(self) -> float:
        """Seconds without a successful turn although one was tried."""
        return max(self.failing_for, self.busy_for)

    def words(self, *, named: bool) -> str:
        """Return the problem for people. Without `named`, it shows only the kind of the error.

        >>> failing = ServiceStatus("job_loop", 45.0, 0.0, 12, 12, "DatabaseError 22021", "bad bytes")
        >>> failing.words(named=True)
        'job_loop has failed for 45s, 12 times in a row: bad bytes'
        >>> ServiceStatus("job_loop", busy_for=45.0).words(named=True)
        'job_loop has waited for an answer for 45s'
        """
        if not self.failures:
            return f"{self.service} has waited for an answer for {in_words(self.busy_for)}"
        times = "once" if self.failures == 1 else f"{self.failures} times in a row"
        error = self.error if named else self.kind
        return f"{self.service} has failed for {in_words(self.failing_for)}, {times}: {error}"


class StatusTracker:
    """The record of one service, or of a part of it that may fail separately."""

    def __init__(self, service: str, *, waits_long: bool = False) -> None:
        """`waits_long` is true for a service whose turn lasts until something happens."""
        self.service = service
        self.lease = _LEASE
        """How long a service may fail before the log has an ERROR."""
        self.well_at: float | None = None
        """When a turn last succeeded."""
        self._waits_long = waits_long
        self._began_at: float | None = None
        self._failing_since: float | None = None
        self._failures = 0
        self._failed_in_all = 0
        self._kind = ""
        self._error = ""
        self._logged_at = dict[str, float]()
        self._unlogged = 0
        self._logged = False
        """Whether the current failure was logged."""
        self._alarmed_at: float | None = None

    def began(self) -> None:
        """Record that a turn begins."""
        self._began_at = monotonic()

    def works(self) -> None:
        """Record that a turn succeeded, or that a long turn has reached its normal state."""
        now = self.well_at = monotonic()
        if self._failing_since is not None or self._alarmed_at is not None:
            self._recovered(self.status(now))
        self._began_at = None

    def failed(self, error: BaseException, *, expected: bool) -> None:
        """Record that a turn failed. The traceback of an error that is not `expected` is logged once."""
        now = monotonic()
        if self._failing_since is None:
            self._failing_since = self._began_at or now
        self._began_at = None
        self._failures += 1
        self._failed_in_all += 1
        self._kind, self._error = _kind(error), _text(error)
        if not self.alarm(self.status(now)):
            self._log(error, expected, now)

    def alarm(self, status: ServiceStatus) -> bool:
        """Log an ERROR, once per lease, if the service has failed for a lease. Return whether it did."""
        now = monotonic()
        if status.unwell_for < self.lease:
            return False
        if self._alarmed_at is not None and now - self._alarmed_at < self.lease:
            return False
        self._alarmed_at, self._unlogged, self._logged = now, 0, True
        self._logged_at[self._error] = now
        log.error("%s", status.words(named=True), extra=self._fields(status))
        return True

    def status(self, now: float | None = None) -> ServiceStatus:
        """Return the status now. Any thread may call it."""
        now = monotonic() if now is None else now
        since, began = self._failing_since, None if self._waits_long else self._began_at
        return ServiceStatus(
            self.service,
            0.0 if since is None else max(0.0, now - since),
            0.0 if began is None else max(0.0, now - began),
            self._failures,
            self._failed_in_all,
            self._kind,
            self._error,
        )

    def _log(self, error: BaseException, expected: bool, now: float) -> None:
        logged_at = self._logged_at.get(self._error)
        recently = logged_at is not None and now - logged_at < _REPEATED_EVERY
        if recently or (logged_at is not None and self._alarmed_at is not None):
            self._unlogged += 1
            return
        if len(self._logged_at) >= _MOST_TEXTS:
            self._logged_at.clear()
        self._logged_at[self._error] = now
        self._logged = True
        unlogged, self._unlogged = self._unlogged, 0
        often = f" ({unlogged} more since the last report)" if unlogged else ""
        fields = self._fields(self.status(now))
        if expected:
            log.warning("%s: %s%s", self.service, self._error, often, extra=fields)
        elif logged_at is None:
            log.error("%s: a turn failed", self.service, exc_info=error, extra=fields)
        else:
            log.error("%s: a turn failed: %s%s", self.service, self._error, often, extra=fields)

    def _recovered(self, status: ServiceStatus) -> None:
        level = logging.INFO if self._logged else logging.DEBUG
        self._failing_since = self._alarmed_at = None
        self._failures, self._logged = 0, False
        log.log(
            level,
            "%s works again after %s",
            self.service,
            in_words(status.unwell_for),
            extra=self._fields(status),
        )

    def _fields(self, status: ServiceStatus) -> dict[str, object]:
        failing_for = round(status.unwell_for, 3)
        return {"service": self.service, "failing_for": failing_for, "failures": status.failures}


def _kind(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None)
    return f"{type(error).__name__} {state}" if state else type(error).__name__


def _text(error: BaseException) -> str:
    """Return the error on one line.

    >>> _text(ValueError("two" + chr(10) + "lines"))
    'ValueError: two lines'
    """
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    if not isinstance(error, HeadwayError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
