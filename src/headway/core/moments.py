"""Checks of moments that users pass: a time zone, and a year that PostgreSQL and Python have. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from headway.errors import ConfigError

_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, tzinfo=UTC)


def check_moment(value: datetime, name: str) -> datetime:
    """Return the moment. Raise ConfigError if it has no time zone or is not in the years 1 to 9999."""
    if not isinstance(value, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{name}={value!r} is not a datetime; pass one with a time zone")
    if value.utcoffset() is None:
        raise ConfigError(f"{name}={value!r} has no time zone; give it one, e.g. tzinfo=UTC")
    # Compare without converting: Python cannot convert the first and last day in some zones.
    if not _FIRST <= value <= _LAST:
        raise ConfigError(f"{name}={value!r} must be in the years 1 to 9999, in UTC")
    return value
