"""When a cron expression is due, found by looking at every minute (or second): slow, and plain to see.

It knows nothing of how `headway.core.cron` or the library under it do it. Its rule, in words:

Walk through UTC tick by tick and read the clocks of the zone at each. Which expressions repeat and which
name times is told by their minute and hour: if one of these begins with a star, it repeats.

- One that repeats is due at each tick at which the clocks show a time that fits, however often they show
  it.
- One that names times is due once for each time that fits. Take every time that clocks which nobody
  changes would show, one after another. If it was shown, the expression is due when it was first shown.
  If it was jumped over, it is due at the first tick that shows a later time. Occurrences on the same tick
  is one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_RANGES = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
BEFORE = timedelta(days=2)
"""How much earlier than asked the walk begins, so that it knows what was shown before."""


def due(
    expression: str,
    zone: ZoneInfo,
    after: datetime,
    until: datetime,
    before: timedelta = BEFORE,
) -> list[datetime]:
    """Every moment behind `after`, up to and with `until`."""
    fields = expression.split()
    seconds = {0} if len(fields) == 5 else _numbers(fields[0], 0, 59)
    minute, hour, day, month, weekday = fields[-5:]
    minutes, hours = _numbers(minute, 0, 59), _numbers(hour, 0, 23)
    months = _numbers(month, 1, 12)

    def fits(shown: datetime) -> bool:
        return (
            shown.second in seconds
            and shown.minute in minutes
            and shown.hour in hours
            and shown.month in months
            and _day_fits(shown, day, weekday)
        )

    tick = timedelta(minutes=1) if seconds == {0} else timedelta(seconds=1)
    ticks = _ticks(after - before, until + timedelta(days=1) * (tick.seconds == 60), tick)
    shown_at = [(moment, moment.astimezone(zone).replace(tzinfo=None, fold=0)) for moment in ticks]
    if minute.startswith("*") or hour.startswith("*"):
        found = {moment for moment, shown in shown_at if fits(shown)}
    else:
        found = _once_each(shown_at, tick, fits)
    return sorted(moment for moment in found if after < moment <= until)


def _once_each(shown_at, tick, fits):  # type: ignore[no-untyped-def]
    first: dict[datetime, datetime] = {}
    for moment, shown in shown_at:
        first.setdefault(shown, moment)
    found: set[datetime] = set()
    place, shown, last = 0, shown_at[0][1], shown_at[-1][1]
    while shown < last:
        if fits(shown):
            if shown in first:
                found.add(first[shown])
            else:
                while shown_at[place][1] < shown:
                    place += 1
                found.add(shown_at[place][0])
        shown += tick
    return found


def _ticks(begin: datetime, end: datetime, tick: timedelta) -> list[datetime]:
    moment = begin.astimezone(UTC).replace(second=0, microsecond=0)
    found: list[datetime] = []
    while moment <= end:
        found.append(moment)
        moment += tick
    return found


def _day_fits(shown: datetime, day: str, weekday: str) -> bool:
    of_month = shown.day in _numbers(day, 1, 31)
    for number, name in enumerate(_DAYS):
        weekday = weekday.replace(name, str(number))
    number = (shown.weekday() + 1) % 7
    of_week = bool({number, number or 7} & _numbers(weekday, 0, 7))
    if day.startswith("*") or weekday.startswith("*"):
        return of_month and of_week
    return of_month or of_week


@cache
def _numbers(field: str, lowest: int, highest: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        first = lowest if span == "*" else int(low)
        last = highest if span == "*" or (step and not high) else int(high or low)
        found |= set(range(first, last + 1, int(step or 1)))
    return found


def changes(zone: ZoneInfo, year: int) -> list[datetime]:
    """The hours of a year, in UTC, in which the clocks of a zone are changed."""
    found: list[datetime] = []
    moment = datetime(year, 1, 1, tzinfo=UTC)
    while moment.year == year:
        later = moment + timedelta(hours=1)
        if moment.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(moment)
        moment = later
    return found
