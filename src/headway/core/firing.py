"""Which occurrences of a schedule to make jobs of, at a moment. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Literal

from headway.core.cron import Spec

CatchUp = Literal["skip", "one", "all"]
Overlap = Literal["allow", "skip", "queue"]

MISSED_AFTER = timedelta(seconds=60)
"""An occurrence that is so old when it is looked at was missed; a younger one is only a little late."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done about a schedule."""

    occurrences: list[datetime]
    """To be made jobs of, oldest first."""
    next_at: datetime | None
    """The occurrence after those; none if there is none."""
    dropped_since: datetime | None
    """The first of those that were missed and are not made up for."""


def plan(
    spec: Spec,
    *,
    after: datetime,
    now: datetime,
    since: datetime,
    ends: datetime | None,
    catch_up: CatchUp,
    most: int,
) -> Plan:
    """What to do at `now` about what is due behind `after`."""
    now = max(now, after).astimezone(UTC)  # a clock that was set back undoes nothing
    until = now if ends is None else min(now, ends)
    late = max(after, now - MISSED_AFTER)
    first = spec.next_after(after, since)
    if first is None or first > min(late, until):
        made = list(spec.between(late, until, since))  # nothing was missed
    elif catch_up == "skip":
        # Of those that are only late the newest, however many a minute has.
        made = spec.newest(1, late, until, since)
    else:
        made = spec.newest(most if catch_up == "all" else 1, after, until, since)
    dropped = None
    if first is not None and first <= until and first not in made[:1]:
        dropped = first
    following = spec.next_after(now, since)
    if following is not None and ends is not None and following > ends:
        following = None
    return Plan(made, following, dropped)


def jittered(name: str, occurrence: datetime, jitter: float) -> datetime:
    """When a job of an occurrence may run: up to `jitter` seconds later, the same whoever asks."""
    digest = blake2b(f"{name} {written(occurrence)}".encode(), digest_size=8).digest()
    share = int.from_bytes(digest, "big") / 2**64
    return occurrence + timedelta(seconds=jitter * share)


def written(moment: datetime) -> str:
    """A moment as headers and keys have it: 2026-03-29T06:00:00Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
