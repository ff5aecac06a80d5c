"""The result of one check: ok, worth a note, or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from headway.core.duration import in_words

Status = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. A note is worth knowing; a wrong one keeps jobs from running."""

    about: str
    status: Status
    words: str


def skew(server: datetime, sent_at: datetime, took: float) -> float:
    """Return how many seconds a server's clock is ahead of this machine's. It was read half way.

    >>> from datetime import UTC
    >>> noon = datetime(2040, 1, 1, 12, tzinfo=UTC)
    >>> skew(noon + timedelta(seconds=2), noon, took=1.0)
    1.5
    """
    return (server - sent_at - timedelta(seconds=took / 2)).total_seconds()


_CLOCKS_APART = 5.0


def clock_finding(apart: float) -> Finding:
    """Return a finding about the difference of the clocks.

    The database's clock decides, so it is a note at worst.
    """
    if abs(apart) < _CLOCKS_APART:
        return Finding("clock", "ok", f"{in_words(abs(apart))} from this machine's")
    side = "ahead of" if apart > 0 else "behind"
    return Finding(
        "clock",
        "note",
        f"{in_words(abs(apart))} {side} this machine's; jobs follow the database's clock",
    )
