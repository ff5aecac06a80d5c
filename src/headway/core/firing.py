"""Which occurrences of a schedule become jobs at a given moment. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Literal

from headway.core.cron import Spec

CatchUp = Literal["skip", "one", "all"]
Overlap = Literal["allow", "skip", "queue"]

MISSED_AFTER = timedelta(seconds=60)
"""An occurrence older than this when it is first seen was missed. A younger one is only late."""


@dataclass(frozen=True, slots=True)
class FiringPlan:
    """The jobs to make for a schedule, and when to return to it."""

    occurrences: list[datetime]
    """The occurrences that become jobs, oldest first."""
    next_at: datetime | None
    """The occurrence after those, or None."""
    dropped_since: datetime | None
    """The first occurrence that was missed and does not become a job, or None."""


def plan(
    spec: Spec,
    *,
    after: datetime,
    now: datetime,
    since: datetime,
    ends: datetime | None,
    catch_up: CatchUp,
    most: int,
) -> FiringPlan:
    """Return the plan at `now` for the occurrences after `after`."""
    now = max(now, after).astimezone(UTC)  # a clock that was set back must not undo anything
    until = now if ends is None else min(now, ends)
    late = max(after, now - MISSED_AFTER)
    first = spec.next_after(after, since)
    if first is None or first > min(late, until):
        made = list(spec.between(late, until, since))  # nothing was missed
    elif catch_up == "skip":
        # Only the newest of the late ones, however many a minute has.
        made = spec.newest(1, late, until, since)
    else:
        made = spec.newest(most if catch_up == "all" else 1, after, until, since)
    dropped = None
    if first is not None and first <= until and first not in made[:1]:
        dropped = first
    following = spec.next_after(now, since)
    if following is not None and ends is not None and following > ends:
        following = None
    return FiringPlan(made, following, dropped)


def jittered(name: str, occurrence: datetime, jitter: float) -> datetime:
    """Return when an occurrence's job may run: up to `jitter` seconds later, equal in all processes."""
    digest = blake2b(f"{name} {written(occurrence)}".encode(), digest_size=8).digest()
    share = int.from_bytes(digest, "big") / 2**64
    return occurrence + timedelta(seconds=jitter * share)


def written(moment: datetime) -> str:
    """Return a moment as headers and keys contain it: 2026-03-29T06:00:00Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
