"""Decides what to claim next: from which queues, lanes and lines, and when to scan. The job loop acts.

The planner asks only lines that may have something (lines.py), after their cursors (cursors.py): those
that a hint named, and those that were not read to their end. A lost hint, or a job that commits late
with an earlier seq, is found by a scan for lanes that have ready jobs. Their lines are then read from
the start. Scans have a budget (scan.py), and the poll interval is the net.

A handler with slots or a limit of its own is asked for on a line of its own, and on one lane at a
time. So several lanes never bring more jobs than it may have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.clock import monotonic
from headway.core.info import Control
from headway.engine.claiming.cursors import Cursors
from headway.engine.claiming.fair_share import EVERY, FairShare
from headway.engine.claiming.limits import KnownLimits, LimitName
from headway.engine.claiming.lines import ClaimLine, ClaimLines
from headway.engine.claiming.scan import ScanSchedule
from headway.engine.claiming.shares import Shares, line_of
from headway.store.documents import Share
from headway.store.rows import Claim, Lane, Lanes
from headway.store.statement import Statement
from headway.store.statements import jobs
from headway.store.statements.controls import LockedLimit

_MOST_HINTED = 64


@dataclass(slots=True)
class ClaimPlan:
    """One claim to make, and whether it scans as well."""

    shares: list[Share]
    scan: bool
    limits: set[LimitName]
    """The limits that it may reach."""
    from_start: set[ClaimLine]
    """The lines that it reads from their start."""
    plain: bool
    """No pause or limit is known, so the claim need not look for any."""
    began: float = field(default_factory=monotonic)


class ClaimPlanner:
    """Plans the claims of one worker."""

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
        """`queues` share slots by weight. `dedicated` queues and the handlers in `slots_of` have this
        many of their own."""
        self._every = EVERY in queues
        self._queues = {*queues, *dedicated} - {EVERY}
        self._dedicated = dedicated
        self._slots_of = slots_of
        self._batch = batch
        self._most = batch
        """The most jobs to claim at once, for now: fewer after a claim that took too long."""
        self.limits = KnownLimits()
        self._strict = strict
        self._fair_share = FairShare(queues, strict=strict)
        self.lines = ClaimLines(handlers, self._fair_share)
        self.lines.divide({*slots_of})
        self._cursors = Cursors()
        self._shares = Shares(self._fair_share, self.lines, self._cursors, slots_of)
        self.scans = ScanSchedule()
        self._claims = 0
        self.last_claim_was_full = False
        """The last claim got all the jobs that it asked for, so there are probably more."""
        self._hinted_since = set[ClaimLine]()
        """Lines that a hint named after the last claim was planned: that claim may have missed it."""
        self._opened_since = set[LimitName]()
        """Limits that opened after the last claim was planned."""
        self._unknown_lanes = 0
        """How many hints named an unknown lane since the last scan."""
        self._claim_first = False
        """A hint named a lane since the last claim: its jobs do not wait for a scan."""

    @property
    def may_claim_ahead(self) -> bool:
        """Whether jobs may be claimed that wait for a slot: no limit or pause, and no strict order."""
        return self.limits.nothing_in_force and not self._strict

    def scan_statement(self) -> Statement[Lanes]:
        """Return the statement that finds the lanes that have ready jobs."""
        return jobs.all_lanes() if self._every else jobs.lanes(sorted(self._queues))

    def hint(self, lane: Lane | None = None, seq: int | None = None) -> bool:
        """There may be ready jobs in this lane (from `seq` on), or anywhere. Return false if this
        worker does not serve the lane."""
        if lane is None:
            self.scans.request()
            return True
        if not self._serves(lane.queue):
            return False
        if not self.lines.has_seen(lane):
            # Anybody can notify. However many lanes a sender invents, a scan finds the real ones.
            self._unknown_lanes += 1
            if self._unknown_lanes > _MOST_HINTED + len(self._queues):
                self.scans.request()
                return True
        lines = self.lines.of(lane)
        self._hinted_since.update(lines)
        self.lines.activate(lines)
        if seq is None:
            # The job may have committed late, and then only a scan is sure to find it.
            self.scans.request()
            self._claim_first = True
        else:
            for line in lines:
                self._cursors.note_late(line, seq)
        return True

    def open(self, name: LimitName) -> bool:
        """There may be room under a limit. Return false if no line here waits for it."""
        if name not in self.limits.names:
            return False
        self._opened_since.add(name)
        opened = self.limits.open(name)
        self.lines.activate(opened)
        return bool(opened)

    def next(
        self,
        free: int,
        free_of: Callable[[str], int],
        running_of: Callable[[str], int],
        poll: float,
    ) -> ClaimPlan | float | None:
        """Return the claim to make now, with `free` slots and those of dedicated queues. If none is
        due, return the seconds to rest, or None to rest until a slot is free."""
        rooms = {queue: min(free_of(queue), self._most) for queue in self._dedicated}
        if free <= 0 and not any(room > 0 for room in rooms.values()):
            return None
        self.lines.activate(self.limits.open_due())
        self._cursors.step_back()
        if self.limits.pause_ended():
            self.scans.request()
        shares = self._shares.of(min(free, self._most), rooms, running_of)
        scan = self.scans.allows(poll) and not (shares and self._claim_first)
        self._claim_first = False
        if shares or scan:
            self._hinted_since.clear()
            self._opened_since.clear()
            if scan:
                self.scans.begin()
            return self._plan(shares, scan)
        rest = self.scans.wait(poll)
        opens_in = self.limits.wait()
        return rest if opens_in is None else min(rest, opens_in)

    def learn(
        self,
        plan: ClaimPlan,
        claims: Sequence[Claim],
        locked: Sequence[LockedLimit] = (),
        lanes: Lanes | None = None,
        controls: Sequence[Control] | None = None,
    ) -> None:
        """Take in the answers to a claim and its scan."""
        took = monotonic() - plan.began
        under = self.limits.count(claims)
        cut = bool(claims) and claims[0].cut
        if plan.shares:
            self._most = min(self._batch, self._most * 2)
            self.last_claim_was_full = cut or len(claims) >= sum(
                share.most for share in plan.shares
            )
        self._learn_claims(plan, claims, self.limits.shut(plan.limits, locked, under), cut=cut)
        # If other lines filled the share first, a line was not read, and cost nothing.
        read = plan.from_start - self._cursors.unread_of(plan.from_start)
        self.limits.learn(plan.limits, locked, under)
        if lanes is not None and controls is not None:
            self._learn_scan(lanes, controls)
        self.scans.claim_took(took, scanned=plan.scan, read_from_start=bool(read))

    def learn_control(self) -> None:
        """A plain claim found that a pause or limit is in force, and claimed nothing."""
        self.limits.nothing_in_force = False
        self.scans.request()

    def failed(self, *, refused: bool = False, too_slow: bool = False) -> None:
        """A claim failed. The jobs that it was to find are still there, so a scan is due.

        If the server `refused` its data, the lines that it asked for are forgotten: the scan
        finds the real ones. If it was `too_slow`, the next claim asks for fewer jobs.
        """
        self.scans.request()
        if refused:
            self.lines.deactivate_all()
            self.lines.forget_priorities()
            self._cursors.forget_all()
        if too_slow:
            self._most = max(1, self._most // 2)

    def _serves(self, queue: str) -> bool:
        return self._every or queue in self._queues

    def _plan(self, shares: list[Share], scan: bool) -> ClaimPlan:
        lines = {line_of(share, ask) for share in shares for ask in share.lines}
        limits = {name for line in lines for name in self.limits.of(line[0], line[2])}
        plain = self.limits.nothing_in_force
        return ClaimPlan(shares, scan, limits, self._cursors.unread_of(lines), plain)

    # -- learning ---------------------------------------------------------------------------------

    def _learn_claims(
        self, plan: ClaimPlan, claims: Sequence[Claim], shut: Collection[LimitName], *, cut: bool
    ) -> None:
        self._claims += 1
        found, alone = defaultdict[ClaimLine, list[int]](list), self.lines.alone
        for claim in claims:  # there may be thousands: do nothing else for each of them
            own = claim.handler if alone and claim.handler in alone else None
            found[claim.queue, claim.priority, own].append(claim.seq)
        taken = Counter({line: len(seqs) for line, seqs in found.items()})
        read_to = {line: max(seqs) for line, seqs in found.items()}
        for share in plan.shares:
            lines = {line_of(share, ask): ask for ask in share.lines}
            got = sum(taken[line] for line in lines)
            if got:
                self._fair_share.served(
                    share.queue, got, max(read_to.get(line, 0) for line in lines)
                )
            for line, ask in lines.items():
                if taken[line]:
                    from_start = line in plan.from_start
                    self._cursors.claimed(line, read_to[line], from_start=from_start)
                    self.lines.served(line, self._claims)
                if got < share.most and taken[line] < ask.most and not cut:
                    self._reached_end(line, shut)

    def _reached_end(self, line: ClaimLine, shut: Collection[LimitName]) -> None:
        limits = self.limits.of(line[0], line[2])
        if not any(name in shut for name in limits):
            # If a limit was shut, there may be jobs that the claim left because of it.
            self._cursors.reached_end(line)
        if line in self._hinted_since or not self._opened_since.isdisjoint(limits):
            return
        self.lines.deactivate(line)
        self.limits.hold(line)

    def _learn_scan(self, lanes: Lanes, controls: Sequence[Control]) -> None:
        self.limits.take_in(controls)
        self.limits.open_all()
        active = self.lines.active_lanes()
        if self.lines.divide({*self._slots_of, *self.limits.tasks}):
            # A line is what is asked for together. These are other lines, and none was read.
            self.lines.deactivate_all()
            self._cursors.forget_cursors()
        found = [lane for lane in lanes.found if self._serves(lane.queue)]
        # In the order of the scan, because the order of a set is arbitrary.
        for lane in dict.fromkeys([*found, *active]):
            self.lines.activate(self.lines.of(lane))
        unread = {line for lane in found for line in self.lines.of(lane)}
        self._cursors.scanned(unread, lanes.newest, active=self.lines.all_active())
        self.lines.keep_active()
        self._unknown_lanes = 0
        self.scans.scanned()
