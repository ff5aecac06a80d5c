"""Room under the limits of queues and tasks that this worker frees, and the notifications about it.

Other workers may wait for that room. They are notified in the round trip after the one that frees it:
the claim of that one may have used the room already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from headway.engine.claiming.limits import LimitName
from headway.engine.claiming.planner import ClaimPlanner
from headway.store.rows import Claim


@dataclass(frozen=True, slots=True)
class LimitNews:
    """The part of a round trip that is about limits."""

    opened: set[LimitName] = field(default_factory=set[LimitName])
    """The limits of which others are notified."""
    changed: bool = False
    """Running jobs are marked again: a limit may be new."""
    freed: Counter[LimitName] = field(default_factory=Counter[LimitName])
    """How much room the verdicts of the round trip free."""

    def __bool__(self) -> bool:
        return bool(self.opened or self.changed or self.freed)


class LimitRoom:
    """Keeps what is to be said about limits until it is committed."""

    def __init__(self, planner: ClaimPlanner) -> None:
        self._planner = planner
        self._opened = set[LimitName]()
        self._changed = False

    @property
    def is_pending(self) -> bool:
        """Whether there is anything to send."""
        return bool(self._opened) or self._changed

    def controls_changed(self) -> None:
        """A pause or a limit is new: waiting jobs may run, and running jobs may count under it."""
        self._planner.hint()
        self._changed = True

    def freed_by(self, claims: Iterable[Claim]) -> Counter[LimitName]:
        """Return the room that the end of these claims frees. Lines here that waited for it are
        asked again."""
        freed = self._planner.limits.count(claims)
        for name in freed:
            self._planner.open(name)
        return freed

    def notify(self, freed: Iterable[LimitName]) -> None:
        """Notify others of this room in the next round trip."""
        self._opened.update(freed)

    def take(self, freed: Counter[LimitName]) -> LimitNews:
        """Return the part of the next round trip, which frees this room. Call `committed` or `undo`
        afterwards."""
        news = LimitNews(self._opened, self._changed, freed)
        self._opened, self._changed = set[LimitName](), False
        return news

    def take_last(self) -> LimitNews:
        """Return the notifications that are left when the job loop ends."""
        return LimitNews(self._opened)

    def committed(self, news: LimitNews, claims: list[Claim]) -> None:
        """The round trip has committed. Others are notified of the room that its claims left."""
        if news.freed:
            news.freed.subtract(self._planner.limits.count(claims))
        self.notify(name for name, room in news.freed.items() if room > 0)

    def undo(self, news: LimitNews) -> None:
        """The round trip has failed."""
        self._opened |= news.opened | news.freed.keys()
        self._changed |= news.changed
