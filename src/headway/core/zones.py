"""Local times of a zone, and the moments at which its offset changes. Pure.

Moments are in UTC here, because Python's arithmetic in a zone is on local times and ignores changes of
the offset.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND = timedelta(seconds=1)
_STRIDE = timedelta(hours=6)
"""No zone has ever changed its offset and changed it back within this time."""


def wall_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the local time of a zone, to the second."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0, microsecond=0)


def offset_at(moment: datetime, zone: ZoneInfo) -> timedelta:
    """Return the offset of a zone from UTC."""
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def instant(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the first moment with this local time, or the end of the gap if the time does not exist."""
    found = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_time(found, zone) == shown.replace(microsecond=0):
        return found
    # Interpreted with the new offset the time falls before the gap, with the old offset after it.
    before = shown.replace(tzinfo=zone, fold=1).astimezone(UTC)
    change = first_change(zone, before, found)
    return found if change is None else change


def first_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """Return the first moment after `after`, up to and including `until`, with another offset."""
    if zone.utcoffset(None) is not None:  # the zone has a fixed offset
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
    """Return whether the local time of this moment occurs twice."""
    local = moment.astimezone(zone)
    return local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
