"""What the clocks of a zone show, and when they are changed. Pure.

Moments are in UTC here: Python's arithmetic with those of a zone is that of its clocks, changes and all.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND = timedelta(seconds=1)
_STRIDE = timedelta(hours=6)
"""No zone ever changed its offset and changed it back within this time."""


def wall_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the clocks of a zone show, to the second."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0, microsecond=0)


def offset_at(moment: datetime, zone: ZoneInfo) -> timedelta:
    """How far the clocks of a zone are from UTC."""
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def instant(shown: datetime, zone: ZoneInfo) -> datetime:
    """When the clocks of a zone show a time for the first time; if they jump over it, the first moment
    after the jump."""
    found = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_time(found, zone) == shown.replace(microsecond=0):
        return found
    # Read with the offset of after the jump it lies before it, with the one of before it behind it.
    before = shown.replace(tzinfo=zone, fold=1).astimezone(UTC)
    change = first_change(zone, before, found)
    return found if change is None else change


def first_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The first moment behind `after`, up to and with `until`, from which another offset holds."""
    if zone.utcoffset(None) is not None:  # it has one offset for all times
        return None
    offset, low = offset_at(after, zone), after.replace(microsecond=0)
    while low < until:
        high = min(low + _STRIDE, until)
        if offset_at(high, zone) != offset:
            while high - low > SECOND:
                middle = low + (high - low) // SECOND // 2 * SECOND
                if offset_at(middle, zone) == offset:
                    low = middle
                else:
                    high = middle
            return high
        low = high
    return None


def is_twice(moment: datetime, zone: ZoneInfo) -> bool:
    """Whether the clocks show the time of this moment twice on its day."""
    local = moment.astimezone(zone)
    return local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
