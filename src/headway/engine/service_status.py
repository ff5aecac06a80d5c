"""How the turns of a service go: since when they fail, how often, and why; and the log about it.

A service that fails says so once. It repeats itself every few seconds at most, with a count. After a
lease it says so at ERROR level, and it says when it works again. Another thread may read a track.
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
class Course:
    """One service at one moment."""

    service: str
    failing_for: float = 0.0
    """Seconds since the first of the turns that failed in a row began; 0 if the last one went well."""
    busy_for: float = 0.0
    """Seconds since the turn under way began; 0 if none is, or if it may last for any time."""
    failures: int = 0
    """Turns that failed in a row."""
    failed_in_all: int = 0
    kind: str = ""
    """The class of the last error, and its SQLSTATE if it has one. It names no host, user or value."""
    error: str = ""
    """The last error, shortened."""

    @property
    def unwell_for(self) -> float:
        """Seconds for which no turn went well although one was tried."""
        return max(self.failing_for, self.busy_for)

    def words(self, *, named: bool) -> str:
        """What is wrong. Without `named`, the error is given by its kind only.

        >>> Course("exchange", 45.0, 0.0, 12, 12, "DatabaseError 22021", "bad bytes").words(named=True)
        'exchange has failed for 45s, 12 times in a row: bad bytes'
        >>> Course("exchange", busy_for=45.0).words(named=True)
        'exchange has waited for an answer for 45s'
        """
        if not self.failures:
            return f"{self.service} has waited for an answer for {in_words(self.busy_for)}"
        times = "once" if self.failures == 1 else f"{self.failures} times in a row"
        error = self.error if named else self.kind
        return f"{self.service} has failed for {in_words(self.failing_for)}, {times}: {error}"


class Track:
    """Of one service, or of one part of it that may fail by itself."""

    def __init__(self, service: str, *, waits_long: bool = False) -> None:
        """`waits_long` is for a service whose turn lasts until something happens."""
        self.service = service
        self.lease = _LEASE
        """How long a service may fail before it says so at ERROR level."""
        self.well_at: float | None = None
        """When a turn last went well."""
        self._waits_long = waits_long
        self._began_at: float | None = None
        self._failing_since: float | None = None
        self._failures = 0
        self._failed_in_all = 0
        self._kind = ""
        self._error = ""
        self._said_at = dict[str, float]()
        self._unsaid = 0
        self._said = False
        """The log has said that it fails now."""
        self._alarmed_at: float | None = None

    def began(self) -> None:
        """A turn begins."""
        self._began_at = monotonic()

    def works(self) -> None:
        """A turn went well; or one that lasts long has what it needs."""
        now = self.well_at = monotonic()
        if self._failing_since is not None or self._alarmed_at is not None:
            self._recovered(self.course(now))
        self._began_at = None

    def failed(self, error: BaseException, *, expected: bool) -> None:
        """A turn failed. The log has the traceback of an error that is not `expected`, once."""
        now = monotonic()
        if self._failing_since is None:
            self._failing_since = self._began_at or now
        self._began_at = None
        self._failures += 1
        self._failed_in_all += 1
        self._kind, self._error = _kind(error), _text(error)
        if not self.alarm(self.course(now)):
            self._tell(error, expected, now)

    def alarm(self, course: Course) -> bool:
        """Say at ERROR level, once per lease, that it is unwell for a lease. Return whether it did."""
        now = monotonic()
        if course.unwell_for < self.lease:
            return False
        if self._alarmed_at is not None and now - self._alarmed_at < self.lease:
            return False
        self._alarmed_at, self._unsaid, self._said = now, 0, True
        self._said_at[self._error] = now
        log.error("%s", course.words(named=True), extra=self._fields(course))
        return True

    def course(self, now: float | None = None) -> Course:
        """How it goes now; from any thread."""
        now = monotonic() if now is None else now
        since, began = self._failing_since, None if self._waits_long else self._began_at
        return Course(
            self.service,
            0.0 if since is None else max(0.0, now - since),
            0.0 if began is None else max(0.0, now - began),
            self._failures,
            self._failed_in_all,
            self._kind,
            self._error,
        )

    def _tell(self, error: BaseException, expected: bool, now: float) -> None:
        said_at = self._said_at.get(self._error)
        lately = said_at is not None and now - said_at < _REPEATED_EVERY
        if lately or (said_at is not None and self._alarmed_at is not None):
            self._unsaid += 1
            return
        if len(self._said_at) >= _MOST_TEXTS:
            self._said_at.clear()
        self._said_at[self._error] = now
        self._said = True
        unsaid, self._unsaid = self._unsaid, 0
        often = f" ({unsaid} more since this was last said)" if unsaid else ""
        fields = self._fields(self.course(now))
        if expected:
            log.warning("%s: %s%s", self.service, self._error, often, extra=fields)
        elif said_at is None:
            log.error("%s: a turn failed", self.service, exc_info=error, extra=fields)
        else:
            log.error("%s: a turn failed: %s%s", self.service, self._error, often, extra=fields)

    def _recovered(self, course: Course) -> None:
        level = logging.INFO if self._said else logging.DEBUG
        self._failing_since = self._alarmed_at = None
        self._failures, self._said = 0, False
        log.log(
            level,
            "%s works again after %s",
            self.service,
            in_words(course.unwell_for),
            extra=self._fields(course),
        )

    def _fields(self, course: Course) -> dict[str, object]:
        failing_for = round(course.unwell_for, 3)
        return {"service": self.service, "failing_for": failing_for, "failures": course.failures}


def _kind(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None)
    return f"{type(error).__name__} {state}" if state else type(error).__name__


def _text(error: BaseException) -> str:
    """The error on one line.

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
