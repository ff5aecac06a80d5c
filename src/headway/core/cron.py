"""When a schedule is due: cron expressions, intervals and one-off times, each in its zone. Pure.

There are two kinds of expression, each with one rule for daylight-saving changes:

- An expression that **names times of day** (neither its minute nor its hour begins with `*`) is due once
  for each time. A time inside a skipped hour is due at the first moment after the gap; several such
  times are due once. A time that occurs twice is due the first time.
- An expression that **repeats** (its minute or its hour begins with `*`) is due whenever the local time
  matches. It is not due in a skipped hour, and is due both times in a repeated hour.

Arithmetic is in UTC. The cron library only sees stretches of time in which the offset is constant.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from itertools import takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from headway.core import zones as clocks
from headway.core.duration import seconds
from headway.errors import ConfigError

_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ZONED = re.compile(r"(?P<when>[^\[\]]*)(?:\[(?P<zone>[^\[\]]*)\])?")
_RANGE_OF_ONE = re.compile(r"(?<![\w-])(\w+)-\1/0*[1-9]\d*(?![\w/])")
"""`5-5/2` means 5, but the library reads it as `5/2`: 5, 7, 9 and so on."""
_LONGEST_TEXT = 200
_MACHINE_ZONES = ("localtime", "posixrules")
"""Zone names whose meaning differs from machine to machine."""
_ZONE_WITHOUT_BRACKETS = re.compile(r"(?:CRON_)?TZ=|\s[A-Z][a-z]+/\w+$|\sUTC$")


class Spec(ABC):
    """A parsed schedule text."""

    text: str
    zone: ZoneInfo

    @abstractmethod
    def next_after(self, moment: datetime, since: datetime) -> datetime | None:
        """Return the first occurrence after a moment, in UTC, or None. `@every` counts from `since`."""

    @property
    def last(self) -> datetime | None:
        """The only occurrence of a one-off time; None for a schedule that repeats."""
        return None

    def moved(self, moment: datetime) -> bool:
        """Return whether this occurrence replaces a local time that does not exist."""
        return False

    def between(self, after: datetime, until: datetime, since: datetime) -> Iterator[datetime]:
        """Yield every occurrence after `after`, up to and including `until`."""
        return takewhile(lambda moment: moment <= until, self.following(after, since))

    def following(self, after: datetime, since: datetime) -> Iterator[datetime]:
        """Yield every occurrence after `after`."""
        found = self.next_after(after, since)
        while found is not None:
            yield found
            found = self.next_after(found, since)

    def newest(
        self, count: int, after: datetime, until: datetime, since: datetime
    ) -> list[datetime]:
        """Return the newest `count` of `between`, oldest first, without walking through all of them."""
        after, until, window = after.astimezone(UTC), until.astimezone(UTC), timedelta(minutes=1)
        while True:
            whole = window >= until - after
            begin = after if whole else until - window
            found = deque(self.between(begin, until, since), maxlen=count)
            if whole or len(found) == count:
                return list(found)
            window *= 2


@dataclass(frozen=True)
class Cron(Spec):
    """A cron expression of five fields, or of six that begin with seconds."""

    text: str
    zone: ZoneInfo
    expression: str
    repeats: bool

    def next_after(self, moment: datetime, since: datetime) -> datetime | None:
        moment = moment.astimezone(UTC)
        try:
            return self._repeated(moment) if self.repeats else self._named(moment)
        except OverflowError:  # after the last year that Python has
            return None

    def moved(self, moment: datetime) -> bool:
        shown = clocks.wall_time(moment, self.zone)
        return not self.repeats and next(self._from(shown - clocks.SECOND), None) != shown

    def _named(self, moment: datetime) -> datetime | None:
        for shown in self._from(clocks.wall_time(moment, self.zone)):
            # During the second pass of a repeated hour, this local time was due in the first.
            if (found := clocks.instant(shown, self.zone)) > moment:
                return found
        return None

    def _repeated(self, moment: datetime) -> datetime | None:
        offset = clocks.offset_at(moment, self.zone)
        begin = moment.replace(tzinfo=None) + offset
        while (shown := next(self._from(begin), None)) is not None:
            found = (shown - offset).replace(tzinfo=UTC)
            change = clocks.first_change(self.zone, moment, found)
            if change is None:
                return found
            moment, offset = change, clocks.offset_at(change, self.zone)
            begin = change.replace(tzinfo=None) + offset - clocks.SECOND
        return None

    def _from(self, shown: datetime) -> Iterator[datetime]:
        """Yield the local time of each occurrence after `shown`, with a constant offset."""
        return CronSim(self.expression, shown)


@dataclass(frozen=True)
class Every(Spec):
    """An interval of elapsed time, counted from when the schedule was made."""

    text: str
    zone: ZoneInfo
    interval: timedelta

    def next_after(self, moment: datetime, since: datetime) -> datetime | None:
        moment, since = moment.astimezone(UTC), since.astimezone(UTC)
        passed = max(0, (moment - since) // self.interval)
        try:
            return since + (passed + 1) * self.interval
        except OverflowError:
            return None


@dataclass(frozen=True)
class Once(Spec):
    """A single moment."""

    text: str
    zone: ZoneInfo
    at: datetime
    jumped: bool = False
    """The local time that it names does not exist."""

    @property
    def last(self) -> datetime | None:
        return self.at

    def moved(self, moment: datetime) -> bool:
        return self.jumped

    def next_after(self, moment: datetime, since: datetime) -> datetime | None:
        return self.at if self.at > moment else None


@lru_cache(maxsize=1000)
def parse(text: str) -> Spec:
    """Parse a schedule text. Raise ConfigError with the text and the problem if it is invalid.

    >>> parse("0 8 * * 1-5[Europe/Berlin]").next_after(
    ...     datetime(2026, 3, 27, 12, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    datetime.datetime(2026, 3, 30, 6, 0, tzinfo=datetime.timezone.utc)
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"schedule {text!r} is not text; write it like '0 8 * * *[Europe/Berlin]', '@every 90s' or "
            "'2030-01-31T08:00:00[Europe/Berlin]'"
        )
    parts = _ZONED.fullmatch(text.strip())
    if parts is None or not parts["when"].strip() or len(text) > _LONGEST_TEXT:
        raise ConfigError(
            f"invalid schedule {text[:220]!r}; write it like '0 8 * * *[Europe/Berlin]'"
        )
    when, zone = parts["when"].strip(), _zone(text, parts["zone"])
    if when.lower().startswith("@every"):
        return _every(text, when, parts["zone"])
    if when.startswith("@"):
        return _cron(text, _shortcut(text, when), zone)
    if re.match(r"\d{4}-", when):
        at, jumped = _moment(text, when, zone)
        return Once(text, zone, at, jumped)
    return _cron(text, when, zone)


def _cron(text: str, expression: str, zone: ZoneInfo) -> Cron:
    expression = _RANGE_OF_ONE.sub(r"\1", expression)
    fields = expression.split()
    try:
        CronSim(expression, datetime(2000, 1, 1))
    except (CronSimError, ValueError, AssertionError) as error:
        problem = str(error).lower() or "an invalid field"
        if _ZONE_WITHOUT_BRACKETS.search(expression):
            raise ConfigError(
                f"schedule {text!r} has a zone without brackets; write it like '0 8 * * *[Europe/Berlin]'"
            ) from None
        raise ConfigError(
            f"schedule {text!r} has {_PROBLEMS.get(problem, problem)}; write five fields (minute, hour, "
            "day of month, month, day of week), six with seconds before them, or a name such as @daily"
        ) from None
    minute, hour = fields[-5:-3]
    return Cron(text, zone, expression, minute.startswith("*") or hour.startswith("*"))


_PROBLEMS = {"wrong number of fields": "the wrong number of fields"} | {
    f"bad {field}": f"an invalid {field.replace('-', ' ')}"
    for field in ("second", "minute", "hour", "day-of-month", "month", "day-of-week")
}


def _shortcut(text: str, when: str) -> str:
    if (found := _SHORT.get(when.lower())) is None:
        names = ", ".join(_SHORT)
        raise ConfigError(f"unknown schedule {text!r}; the names are {names} and '@every 90s'")
    return found


def _every(text: str, when: str, zone: str | None) -> Every:
    if zone is not None:
        raise ConfigError(
            f"schedule {text!r} counts elapsed time, so it has no time zone; leave out the brackets"
        )
    length = seconds(when[len("@every") :].strip(), name=f"the interval of schedule {text!r}")
    if length < 1:
        raise ConfigError(
            f"schedule {text!r} has an interval of less than a second; use 1s or more"
        )
    return Every(text, ZoneInfo("UTC"), timedelta(seconds=length))


def _moment(text: str, when: str, zone: ZoneInfo) -> tuple[datetime, bool]:
    """Return the moment, and whether the local time that the text names does not exist."""
    try:
        read = datetime.fromisoformat(when)
        if read.tzinfo is None:
            at = clocks.instant(read, zone)
            return at, clocks.wall_time(at, zone) != read.replace(microsecond=0)
        found = read.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"invalid time in schedule {text!r}; write it like '2030-01-31T08:00:00[Europe/Berlin]'"
        ) from None
    if "[" in text and clocks.offset_at(found, zone) != read.utcoffset():
        raise ConfigError(
            f"schedule {text!r} has an offset that {zone.key} does not have at that time; "
            "leave out the offset or the zone"
        )
    return found, False


def _zone(text: str, name: str | None) -> ZoneInfo:
    if name is None:
        return ZoneInfo("UTC")
    try:
        if name not in _MACHINE_ZONES:
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    close = get_close_matches(name, available_timezones() - {name, *_MACHINE_ZONES}, 1, cutoff=0.7)
    hint = f"did you mean {close[0]}?" if close else "write it like Europe/Berlin"
    raise ConfigError(f"schedule {text!r} has an unknown time zone {name!r}; {hint}")
