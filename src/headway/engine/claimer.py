"""What to claim next: lanes, cursors and when to look at all. Decides; the exchange acts.

A lane is an append-only log, so the claimer remembers how far it has read each one. It asks
 - at once when a batch came back full, or when a hint (a notification) says that there may be work;
 - behind its cursors normally, from the start of every lane when the scan budget allows it;
 - again after the poll interval, as a net under lost hints.
A task with slots of its own is asked for on a line of its own, with room for just as many, and on one
lane at a time, so that several lanes never bring more than its slots: the next lane is asked when
the one before was found empty. Its part of a full scan therefore takes several claims: lines that it
has not come to are read from their start when it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.clock import monotonic
from headway.engine.scan import ScanBudget
from headway.store.documents import Ask
from headway.store.rows import Claim, Lane, Lanes

_LONGEST_LEAD = 1000.0
"""How many turns a queue may be behind: one that was empty for long has no right to them all."""

Line = tuple[str, int, str | None]
"""A queue, a priority and, for a handler with slots of its own, that handler: what has a cursor."""


@dataclass(slots=True)
class Plan:
    """One claim to be made: its lines, the room in all, and whether it reads from the start."""

    asks: dict[Line, Ask]
    room: int
    full: bool
    goes_on: bool = False
    """It reads lines from their start that the last full scan had left."""
    began: float = field(default_factory=monotonic)


class Claimer:
    """Keeps the cursors of one worker."""

    def __init__(
        self,
        queues: Mapping[str, int],
        handlers: Sequence[str],
        slots_of: Mapping[str, int],
        batch: int,
    ) -> None:
        """`queues` have weights; `slots_of` is for handlers that have slots of their own."""
        self._weights = dict(queues)
        self._turns = dict.fromkeys(queues, 0.0)
        self._shared = tuple(handler for handler in handlers if handler not in slots_of)
        self._slots_of = slots_of
        self._batch = batch
        self._lanes: dict[str, set[int]] = {queue: {0} for queue in queues}
        self._cursors: dict[Line, int] = {}
        self._empty: set[Line] = set()
        self._unread: set[Line] = set()
        """Lines that the last full scan has still to come to."""
        self._budget = ScanBudget()
        self._hinted = True
        self._more = False
        """The last claim left something to be asked for."""
        self._owed = False
        self._asked_at = monotonic()

    @property
    def queues(self) -> list[str]:
        return list(self._lanes)

    def hint(self, lane: Lane | None = None) -> bool:
        """There may be work, in this lane or anywhere; false if the lane is none of ours."""
        if lane is not None:
            if lane.queue not in self._lanes:
                return False
            self._lanes[lane.queue].add(lane.priority)
            self._empty -= {(lane.queue, lane.priority, own) for own in self._slots_of}
        else:
            self._empty.clear()
        self._hinted = True
        return True

    def meet(self, lanes: Lanes) -> None:
        """Takes in which lanes have ready jobs."""
        for lane in lanes.found:
            if lane.priority not in self._lanes[lane.queue]:
                self.hint(lane)

    def next(self, free: int, running_of: Callable[[str], int], poll: float) -> Plan | float | None:
        """The claim to make now with `free` slots; or how long to rest, none if until a slot is free."""
        room = min(free, self._batch)
        own_room = {
            own: min(room, slots - running_of(own)) for own, slots in self._slots_of.items()
        }
        if room <= 0 or not (self._shared or any(limit > 0 for limit in own_room.values())):
            return None
        full = self._budget.allows()
        until_poll = self._asked_at + poll - monotonic()
        if full or until_poll <= 0:
            self._empty.clear()
        # Whoever gives a hint may mean what committed late, which only a full scan is sure to find.
        self._owed |= self._hinted or until_poll <= 0
        if self._hinted or self._more or until_poll <= 0 or (self._owed and full):
            self._hinted = self._more = False
            if asks := self._asks(room, own_room, full):
                goes_on = not full and not self._unread.isdisjoint(asks)
                self._unread = (
                    self._own_lines() - asks.keys() if full else self._unread - asks.keys()
                )
                return Plan(asks, room, full, goes_on)
        return min(until_poll, self._budget.wait()) if self._owed else until_poll

    def learn(self, plan: Plan, claims: Sequence[Claim], lanes: Lanes | None) -> None:
        """Takes in what a claim brought: moves the cursors, and knows whether to ask on."""
        self._asked_at = monotonic()
        taken = Counter[Line]()
        read_to: dict[Line, int] = {}
        for claim in claims:
            handler = claim.handler
            line = (claim.queue, claim.priority, handler if handler in self._slots_of else None)
            taken[line] += 1
            read_to[line] = max(claim.seq, read_to.get(line, 0))
        for line, count in taken.items():
            self._turns[line[0]] += count / self._weights[line[0]]
            # Back, too: what a full scan finds behind the cursor (it committed late, or its queue was
            # paused) goes on behind it, and is to be read on from there.
            if plan.asks[line].cursor == 0 or read_to[line] > self._cursors.get(line, 0):
                self._cursors[line] = read_to[line]
        exhausted = len(claims) < plan.room
        if exhausted:
            self._owed &= not plan.full
            self._note_empty(plan, taken)
        else:
            self._more = True
        if plan.full or plan.goes_on:
            self._budget.spent(monotonic() - plan.began)
        if lanes is not None:
            self._take_in(plan, taken if exhausted else None, lanes)

    def failed(self) -> None:
        """A claim came to nothing: what it was to find is still there."""
        self._hinted = True

    def _asks(self, room: int, own_room: dict[str, int], full: bool) -> dict[Line, Ask]:
        asks: dict[Line, Ask] = {}
        for queue in self._in_turn():
            for priority in sorted(self._lanes[queue], reverse=True):
                line: Line = (queue, priority, None)
                if self._shared:
                    asks[line] = self._ask(line, room, self._shared, full)
                for own in [own for own, limit in own_room.items() if limit > 0]:
                    line = (queue, priority, own)
                    if line not in self._empty:
                        asks[line] = self._ask(line, own_room.pop(own), (own,), full)
        return asks

    def _ask(self, line: Line, room: int, handlers: tuple[str, ...], full: bool) -> Ask:
        cursor = 0 if full or line in self._unread else self._cursors.get(line, 0)
        return Ask(Lane(line[0], line[1]), cursor, room, handlers)

    def _own_lines(self) -> set[Line]:
        return {
            (queue, priority, own)
            for queue, priorities in self._lanes.items()
            for priority in priorities
            for own in self._slots_of
        }

    def _note_empty(self, plan: Plan, taken: Counter[Line]) -> None:
        """Of handlers with slots of their own: the lanes found empty, and if there are more."""
        for line, ask in plan.asks.items():
            if line[2] is not None and taken[line] < ask.room:
                self._empty.add(line)
                known = sum(1 for other in self._empty if other[2] == line[2])
                self._more |= known < sum(map(len, self._lanes.values()))

    def _in_turn(self) -> list[str]:
        """Queues, the one that had least for its weight first."""
        floor = min(self._turns.values(), default=0.0)
        self._turns = {q: min(turns - floor, _LONGEST_LEAD) for q, turns in self._turns.items()}
        return sorted(self._turns, key=self._turns.__getitem__)

    def _take_in(self, plan: Plan, taken: Counter[Line] | None, lanes: Lanes) -> None:
        self.meet(lanes)
        if taken is None:
            return
        for line, ask in plan.asks.items():
            if taken[line] < ask.room and ask.cursor == 0:
                # All of this line was seen: what its cursor passes now is dead, held, or for others.
                self._cursors[line] = max(lanes.newest, self._cursors.get(line, 0))
