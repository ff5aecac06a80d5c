"""What to claim next: queues, lanes, cursors and when to look at all. Decides; the exchange acts.

A lane is an append-only log, so the claimer remembers how far it has read each one, and it asks only
lanes that may have something: those it was told of, and those that were not read to their end. So
a queue that is empty costs nothing, however many there are. What it may have missed (a lost hint, a job
that committed late with an earlier place) is found by a look at which lanes have ready jobs; what it
finds is read from the start. Looks have a budget (scan.py), and the poll interval as a net.

A handler with slots or a limit of its own is asked for on a line of its own, and on one lane at a
time, so that several lanes never bring more than it may have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

from headway.core.clock import monotonic
from headway.engine.claiming.fair_share import EVERY, Turns
from headway.engine.claiming.limits import LimitName, Limits, Line
from headway.engine.claiming.scan import ScanBudget
from headway.store import jobs
from headway.store.controls import ControlRow, LockedLimit
from headway.store.documents import Ask, Share
from headway.store.rows import Claim, Lane, Lanes
from headway.store.statement import Statement

_MOST_ABOVE = 16
_MOST_HINTED = 64
_USUAL_OF = 8
"""Of about so many claims the usual time is the mean."""


@dataclass(slots=True)
class Plan:
    """One claim to be made, and whether to look as well."""

    shares: list[Share]
    look: bool
    limits: set[LimitName]
    """Those that it may meet."""
    from_start: set[Line]
    """The lines that it reads from their start."""
    began: float = field(default_factory=monotonic)


class Claimer:
    """Keeps the cursors of one worker."""

    def __init__(
        self,
        queues: Mapping[str, int],
        dedicated: Mapping[str, int],
        handlers: Sequence[str],
        slots_of: Mapping[str, int],
        batch: int,
        *,
        strict: bool = False,
    ) -> None:
        """`queues` share slots by weight, `dedicated` have so many of their own; `slots_of` is for
        handlers that have slots of their own."""
        self._every = EVERY in queues
        self._queues = {*queues, *dedicated} - {EVERY}
        self._dedicated = dedicated
        self._turns = Turns(queues, strict=strict)
        self._handlers = handlers
        self._slots_of = slots_of
        self._batch = batch
        self.limits = Limits()
        self._alone, self._together = self._divide()
        self._active: dict[str, set[Line]] = {}
        """The lines that may have something, by queue."""
        self._priorities: dict[str, set[int]] = {}
        """Those of a queue that ever had something, by queue."""
        self._cursors: dict[Line, int] = {}
        self._floor = 0
        """The newest place when it was last looked: where a line begins that had nothing then."""
        self._unread: set[Line] = set()
        """Lines to be read from their start."""
        self._served: dict[Line, int] = {}
        """The claim that last brought something of a line: within a lane the lines take turns."""
        self._claims = 0
        self._fresh: set[Line] = set()
        self._late: dict[Line, int] = {}
        """Places that the cursor may have passed while what has them now was being made ready."""
        self._opened: set[LimitName] = set()
        """What was heard while a claim was under way, which did not know of it."""
        self.sated = False
        """The last claim brought all that was asked for: there may well be more."""
        self._look_due = True
        self._owed = False
        """Something was said that only a look is sure to find."""
        self._looked_at = monotonic()
        self._hinted = 0
        """Lanes that only a notification named, since the last scan."""
        self._most = batch
        """The most jobs to claim at once, for now: fewer after a claim that took too long."""
        self._usual = 0.0
        """What a claim takes that neither looks nor reads from a start."""
        self._budget = ScanBudget()

    def question(self) -> Statement[Lanes]:
        """Which lanes have ready jobs."""
        return jobs.all_lanes() if self._every else jobs.lanes(sorted(self._queues))

    def hint(self, lane: Lane | None = None, place: int | None = None) -> bool:
        """There may be work, in this lane (from `place` on) or anywhere; false if it is none of ours."""
        if lane is None:
            self._look_due = True
            return True
        if not (self._every or lane.queue in self._queues):
            return False
        if lane.priority not in self._priorities.get(lane.queue, ()):
            # Anybody can notify. A scan finds the lanes that there are, however many were named.
            self._hinted += 1
            if self._hinted > _MOST_HINTED + len(self._queues):
                self._owed = True
                return True
        lines = self._lines(lane)
        self._fresh.update(lines)
        self._activate(lines)
        if place is None:
            # It may mean what committed late, which only a look is sure to find.
            self._owed = True
        else:
            self._late.update((line, min(place, self._late.get(line, place))) for line in lines)
        return True

    def open(self, name: LimitName) -> bool:
        """There may be room under a limit; false if nobody here waits for it."""
        if name not in self.limits.names:
            return False
        self._opened.add(name)
        opened = self.limits.open(name)
        self._activate(opened)
        return bool(opened)

    def next(
        self,
        free: int,
        free_of: Callable[[str], int],
        running_of: Callable[[str], int],
        poll: float,
    ) -> Plan | float | None:
        """The claim to make now, with `free` slots and those of dedicated queues; or how long to rest,
        none if until a slot is free."""
        rooms = {queue: min(free_of(queue), self._most) for queue in self._dedicated}
        if free <= 0 and not any(room > 0 for room in rooms.values()):
            return None
        self._activate(self.limits.open_due())
        for line, place in self._late.items():
            self._cursors[line] = min(self._cursor(line), place - 1)
        self._late.clear()
        self._look_due |= self.limits.pause_ended()
        until_poll = self._looked_at + poll - monotonic()
        wants_look = self._look_due or self._owed or until_poll <= 0
        look = wants_look and self._budget.allows()
        shares = self._shares(min(free, self._most), rooms, running_of)
        if shares or look:
            self._fresh.clear()
            self._opened.clear()
            if look:
                self._look_due = self._owed = False
            return self._plan(shares, look)
        rest = self._budget.wait() if wants_look else until_poll
        opens_in = self.limits.wait()
        return rest if opens_in is None else min(rest, opens_in)

    def learn(
        self,
        plan: Plan,
        claims: Sequence[Claim],
        locked: Sequence[LockedLimit] = (),
        lanes: Lanes | None = None,
        controls: Sequence[ControlRow] | None = None,
    ) -> None:
        """Takes in what a claim and a look brought."""
        took = monotonic() - plan.began
        under = self.limits.count(claims)
        cut = bool(claims) and claims[0].cut
        if plan.shares:
            self._most = min(self._batch, self._most * 2)
            self.sated = cut or len(claims) >= sum(share.n for share in plan.shares)
        self._note_claims(plan, claims, self.limits.shut(plan.limits, locked, under), cut=cut)
        # Where those before it filled the share, a line was not come to, and cost nothing.
        read_anew = not plan.from_start <= self._unread
        self.limits.learn(plan.limits, locked, under)
        if lanes is not None and controls is not None:
            self._take_in(lanes, controls)
        if plan.look or read_anew:
            # A look, and then the reading that it brings about.
            self._budget.spent(max(0.0, took - self._usual), more=not plan.look)
        else:
            self._usual += (took - self._usual) / _USUAL_OF

    def failed(self, *, refused: bool = False, too_slow: bool = False) -> None:
        """A claim came to nothing: what it was to find is still there.

        If the server `refused` its data, the lines that it asked for are forgotten, and a scan
        finds those that there are. If it was `too_slow`, the next one asks for less.
        """
        self._look_due = True
        if refused:
            self._forget_lines()
            self._priorities.clear()
            self._unread.clear()
            self._late.clear()
        if too_slow:
            self._most = max(1, self._most // 2)

    # -- asking -----------------------------------------------------------------------------------

    def _shares(
        self, room: int, rooms: Mapping[str, int], running_of: Callable[[str], int]
    ) -> list[Share]:
        own_room = {own: slots - running_of(own) for own, slots in self._slots_of.items()}
        asked: set[str] = set()

        def able(queue: str) -> bool:
            return queue not in rooms and (
                not own_room
                or any(own_room.get(own or "", 1) > 0 for _, _, own in self._active[queue])
            )

        wanted = [
            *self._turns.shares(room, able),
            *((queue, most) for queue, most in rooms.items() if most > 0 and queue in self._active),
        ]
        # A handler that is asked for alone is asked of one queue only: of each when its turn has come.
        if rooms:
            wanted.sort(key=lambda share: self._turns.clock(share[0]))
        shares = [
            Share(queue, most, self._asks(queue, most, own_room, asked)) for queue, most in wanted
        ]
        return [share for share in shares if share.l]

    def _asks(
        self, queue: str, room: int, own_room: Mapping[str, int], asked: set[str]
    ) -> list[Ask]:
        asks: list[Ask] = []
        passed: int | None = None
        for line in self._ordered(queue):
            _, priority, own = line
            if passed is not None and priority < passed:
                break  # a line above waits for its turn in the next claim, and nothing overtakes it
            most = min(room, own_room.get(own or "", room))
            if most <= 0:
                continue
            if own in asked:
                passed = priority
                continue
            if own is not None:
                asked.add(own)
            handlers = self._together if own is None else (own,)
            asks.append(Ask(priority, self._cursor(line), most, handlers, own is not None))
        return asks

    def _ordered(self, queue: str) -> Collection[Line]:
        lines = self._active[queue]
        if self._together and len(self._priorities[queue]) > 1:
            lines = lines | self._above(queue)
        return sorted(lines, key=self._place) if len(lines) > 1 else lines

    def _above(self, queue: str) -> set[Line]:
        """Lines that nobody spoke of, above those that are asked: what has just become ready there goes
        first, whether or not the word of it is here yet."""
        lowest = min(priority for _, priority, _ in self._active[queue])
        higher = (priority for priority in self._priorities[queue] if priority > lowest)
        return {(queue, priority, None) for priority in nlargest(_MOST_ABOVE, higher)}

    def _place(self, line: Line) -> tuple[int, int, str]:
        return -line[1], self._served.get(line, 0), line[2] or ""

    def _plan(self, shares: list[Share], look: bool) -> Plan:
        lines = {_line(share, ask) for share in shares for ask in share.l}
        limits = {name for line in lines for name in self.limits.of(line[0], line[2])}
        return Plan(shares, look, limits, lines & self._unread)

    def _cursor(self, line: Line) -> int:
        return 0 if line in self._unread else self._cursors.get(line, self._floor)

    # -- learning ---------------------------------------------------------------------------------

    def _note_claims(
        self, plan: Plan, claims: Sequence[Claim], shut: Collection[LimitName], *, cut: bool
    ) -> None:
        self._claims += 1
        found = defaultdict[Line, list[int]](list)
        for claim in claims:  # of many: nothing more than this for each
            own = claim.handler if self._alone and claim.handler in self._alone else None
            found[claim.queue, claim.priority, own].append(claim.seq)
        taken = Counter({line: len(places) for line, places in found.items()})
        read_to = {line: max(places) for line, places in found.items()}
        for share in plan.shares:
            lines = {_line(share, ask): ask for ask in share.l}
            got = sum(taken[line] for line in lines)
            if got:
                self._turns.served(share.q, got, max(read_to.get(line, 0) for line in lines))
            for line, ask in lines.items():
                # Back, too: what is found behind the cursor goes on behind it, and is read from there.
                if taken[line] and (line in plan.from_start or read_to[line] > self._cursor(line)):
                    self._cursors[line] = read_to[line]
                if taken[line]:
                    self._unread.discard(line)
                    self._served[line] = self._claims
                if got < share.n and taken[line] < ask.n and not cut:
                    self._read_to_the_end(line, shut)

    def _read_to_the_end(self, line: Line, shut: Collection[LimitName]) -> None:
        limits = self.limits.of(line[0], line[2])
        if line in self._unread and not any(name in shut for name in limits):
            # What its cursor passes now is dead, held, or for others; not what a limit kept from us.
            self._unread.discard(line)
            self._cursors[line] = max(self._floor, self._cursors.get(line, 0))
        if line in self._fresh or not self._opened.isdisjoint(limits):
            return
        lines = self._active.get(line[0])
        if lines is not None:
            lines.discard(line)
            if not lines:
                del self._active[line[0]]
                self._turns.leave(line[0])
        self.limits.hold(line)

    def _take_in(self, lanes: Lanes, controls: Sequence[ControlRow]) -> None:
        self.limits.take_in(controls)
        self.limits.open_all()
        active = {Lane(queue, line[1]) for queue, lines in self._active.items() for line in lines}
        if (self._alone, self._together) != (divided := self._divide()):
            # A line is what is asked for together: there are others now, none of them read.
            self._alone, self._together = divided
            self._forget_lines()
        ours = [lane for lane in lanes.found if self._every or lane.queue in self._queues]
        self._unread = {line for lane in ours for line in self._lines(lane)}
        # In the order of the look: a set's would be anyone's.
        self._activate(
            line for lane in dict.fromkeys([*ours, *active]) for line in self._lines(lane)
        )
        self._floor = lanes.newest
        known = {line for lines in self._active.values() for line in lines}
        self._cursors = {line: at for line, at in self._cursors.items() if line in known}
        self._served = {line: at for line, at in self._served.items() if line in known}
        self._priorities = {q: self._priorities[q] for q in self._active}
        self._turns.tidy()
        self._hinted = 0
        self._looked_at = monotonic()

    def _forget_lines(self) -> None:
        self._cursors.clear()
        for queue in self._active:
            self._turns.leave(queue)
        self._active.clear()

    def _divide(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The handlers that are asked for alone, and those that go together."""
        alone = {*self._slots_of, *self.limits.tasks}
        return (
            tuple(handler for handler in self._handlers if handler in alone),
            tuple(handler for handler in self._handlers if handler not in alone),
        )

    def _lines(self, lane: Lane) -> list[Line]:
        lines: list[Line] = [(lane.queue, lane.priority, own) for own in self._alone]
        return [(lane.queue, lane.priority, None), *lines] if self._together else lines

    def _activate(self, lines: Iterable[Line]) -> None:
        for line in lines:
            queue = line[0]
            if queue not in self._active:
                self._active[queue] = set()
                self._turns.join(queue)
            self._active[queue].add(line)
            self._priorities.setdefault(queue, set()).add(line[1])


def _line(share: Share, ask: Ask) -> Line:
    return share.q, ask.p, ask.t[0] if ask.o else None
