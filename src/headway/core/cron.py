"""When a schedule is due: cron expressions, intervals and one-off times, each in its zone. Pure.

What happens when the clocks are changed is one rule for each of two kinds of expression:

- One that **names times of day** (neither its minute nor its hour begins with `*`) happens once for each
  time it names. A time that the clocks jump over happens at the first moment after the jump, several of
  them as one; a time that comes twice happens the first time.
- One that **repeats** (its minute or its hour begins with `*`) happens at every moment at which the
  clocks show a time that fits: never while they jump, and both times where an hour comes twice.

Arithmetic is that of UTC. The library that reads expressions is only asked about stretches of time in
which the clocks are not changed.
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

from headway.core import clocks
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
"""`5-5/2` is 5; the library takes it for `5/2`, which is 5, 7, 9 and so on."""
_LONGEST_TEXT = 200
_EACH_MACHINE_S = ("localtime", "posixrules")
"""Zones that are another one on another machine."""
_ZONE_WITHOUT_BRACKETS = re.compile(r"(?:CRON_)?TZ=|\s[A-Z][a-z]+/\w+$|\sUTC$")


class Spec(ABC):
    """A text that says when, read."""

    text: str
    zone: ZoneInfo

    @abstractmethod
    def next_after(self, moment: datetime, since: datetime) -> datetime | None:
        """The first occurrence behind a moment, in UTC; none if there is none. `@every` counts from
        `since`."""

    @property
    def last(self) -> datetime | None:
        """The only occurrence of a one-off time; none of what repeats."""
        return None

    def moved(self, moment: datetime) -> bool:
        """Whether this occurrence stands for a time that the clocks jumped over."""
        return False

    def between(self, after: datetime, until: datetime, since: datetime) -> Iterator[datetime]:
        """Every occurrence behind `after`, up to and with `until`."""
        return takewhile(lambda moment: moment <= until, self.following(after, since))

    def following(self, after: datetime, since: datetime) -> Iterator[datetime]:
        """Every occurrence behind `after`."""
        found = self.next_after(after, since)
        while found is not None:
            yield found
            found = self.next_after(found, since)

    def newest(
        self, count: int, after: datetime, until: datetime, since: datetime
    ) -> list[datetime]:
        """The newest `count` of `between`, oldest first, without a walk through all of them."""
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
        except OverflowError:  # behind the last year there is
            return None

    def moved(self, moment: datetime) -> bool:
        shown = clocks.wall_time(moment, self.zone)
        return not self.repeats and next(self._from(shown - clocks.SECOND), None) != shown

    def _named(self, moment: datetime) -> datetime | None:
        for shown in self._from(clocks.wall_time(moment, self.zone)):
            # In an hour that comes for the second time, what it shows was there already.
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
        """What clocks that are never changed show at each occurrence behind `shown`."""
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
    """The time that it names does not exist."""

    @property
    def last(self) -> datetime | None:
        return self.at

    def moved(self, moment: datetime) -> bool:
        return self.jumped

    def next_after(self, moment: datetime, since: datetime) -> datetime | None:
        return self.at if self.at > moment else None


@lru_cache(maxsize=1000)
def parse(text: str) -> Spec:
    """Reads when a schedule is due; ConfigError names the text and what is wrong with it.

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
        raise ConfigError(f"schedule {text[:220]!r} is not like '0 8 * * *[Europe/Berlin]'")
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
        problem = str(error).lower() or "a field that cannot be read"
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
    f"bad {field}": f"{words} that cannot be"
    for field, words in {
        "second": "a second",
        "minute": "a minute",
        "hour": "an hour",
        "day-of-month": "a day of the month",
        "month": "a month",
        "day-of-week": "a day of the week",
    }.items()
}


def _shortcut(text: str, when: str) -> str:
    if (found := _SHORT.get(when.lower())) is None:
        names = ", ".join(_SHORT)
        raise ConfigError(f"schedule {text!r} is not known; there are {names} and '@every 90s'")
    return found


def _every(text: str, when: str, zone: str | None) -> Every:
    if zone is not None:
        raise ConfigError(
            f"schedule {text!r} counts elapsed time, which is the same everywhere; leave out the zone"
        )
    length = seconds(when[len("@every") :].strip(), name=f"the interval of schedule {text!r}")
    if length < 1:
        raise ConfigError(
            f"schedule {text!r} has an interval of less than a second; give it 1s or more"
        )
    return Every(text, ZoneInfo("UTC"), timedelta(seconds=length))


def _moment(text: str, when: str, zone: ZoneInfo) -> tuple[datetime, bool]:
    """When it is, and whether the clocks jump over the time that it names."""
    try:
        read = datetime.fromisoformat(when)
        if read.tzinfo is None:
            at = clocks.instant(read, zone)
            return at, clocks.wall_time(at, zone) != read.replace(microsecond=0)
        found = read.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"schedule {text!r} is not a time like '2030-01-31T08:00:00[Europe/Berlin]'"
        ) from None
    if "[" in text and clocks.offset_at(found, zone) != read.utcoffset():
        raise ConfigError(
            f"schedule {text!r} has another offset than {zone.key} has then; leave one of them out"
        )
    return found, False


def _zone(text: str, name: str | None) -> ZoneInfo:
    if name is None:
        return ZoneInfo("UTC")
    try:
        if name not in _EACH_MACHINE_S:
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    close = get_close_matches(name, available_timezones() - {name, *_EACH_MACHINE_S}, 1, cutoff=0.7)
    hint = f"did you mean {close[0]}?" if close else "write it like Europe/Berlin"
    raise ConfigError(f"schedule {text!r} has an unknown time zone {name!r}; {hint}")
