"""The job loop: a worker settles verdicts and claims jobs in one round trip after another.

Whatever is due goes together, in one commit (round_trip.py). Verdicts on which nothing depends go on a
connection of their own, in parallel with the claim, so that two server processes work for one worker.
A turn ends when both are answered. While they are under way, handlers run, and their verdicts make the
next batch. So the size of batches follows demand, and nothing waits for a fixed interval.

A fault is charged to its cause (G8). If the server refuses the data of a round trip, the job loop
sends the verdicts alone and bisects them down to the bad one. The planner forgets the lines of the claim,
and scans.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

from headway.core.clock import Clock, monotonic
from headway.core.verdict import RELEASE
from headway.engine.claiming.planner import ClaimPlan, ClaimPlanner
from headway.engine.jobs.limit_room import LimitRoom
from headway.engine.jobs.orphans import Orphans
from headway.engine.jobs.round_trip import Answers, RoundTrip
from headway.engine.jobs.settler import Settler, VerdictBatch
from headway.engine.keys.admission import KeyAdmission
from headway.engine.registration import Registration
from headway.engine.running.executor import Executor
from headway.engine.service import Service, log
from headway.errors import HeadwayError
from headway.store.connections.engine_connection import EngineConnection
from headway.store.faults import is_about_data, is_too_slow
from headway.store.rows import Claim, Lane


class JobLoop(Service):
    """Settles and claims."""

    def __init__(
        self,
        connection: EngineConnection,
        clock: Clock,
        *,
        planner: ClaimPlanner,
        settler: Settler,
        keys: KeyAdmission,
        executor: Executor,
        registration: Registration,
        poll: float,
        woken: asyncio.Event,
    ) -> None:
        """`poll` is the seconds between two scans if nothing happens. `woken` wakes this service."""
        super().__init__(woken)
        self.connection = connection
        self.settling = EngineConnection(connection.target)
        """For verdicts that are sent in parallel with a claim."""
        self._clock = clock
        self._planner = planner
        self.settler = settler
        self._keys = keys
        self._executor = executor
        self._registration = registration
        self.poll = poll
        self._draining = False
        self._limits = LimitRoom(planner)
        self._orphans = Orphans(connection)
        self._turning = asyncio.Lock()

    @property
    def worker_id(self) -> int:
        """The id to claim by. 0 while the lease cannot be trusted: the loop claims nothing."""
        return self._registration.worker_id

    def hint(self, lane: Lane | None) -> None:
        """There may be ready jobs in a lane, or anywhere."""
        if self._planner.hint(lane):
            self.wake()

    def limit_opened(self, kind: str, name: str) -> None:
        """There may be room under a limit."""
        if self._planner.open((kind, name)):
            self.wake()

    def controls_changed(self) -> None:
        """A pause or a limit has changed."""
        self._limits.controls_changed()
        self.wake()

    async def drain(self) -> None:
        """Claim nothing more. Return when no claim is under way either."""
        self._draining = True
        async with self._turning:
            pass

    async def turn(self) -> float | None:
        async with self._turning:
            return await self._turn()

    async def _turn(self) -> float | None:
        await self._adopt_orphans()
        batch = self.settler.take()
        keys = self._keys.take(batch or (), claim_was_full=self._planner.last_claim_was_full)
        ended = chain((settled.claim for settled in batch or ()), self.settler.take_elsewhere())
        freed = self._limits.freed_by(ended)
        plan = self._plan()
        if not isinstance(plan, ClaimPlan):
            if batch is None and not keys and not self._limits.is_pending:
                self._limits.notify(freed)
                return 0 if freed else _soonest(plan, self.settler.due_in(), self._orphans_in())
            plan = None
        scan = self._planner.scan_statement() if plan is not None and plan.scan else None
        trip = RoundTrip(batch, keys, plan, scan, self._limits.take(freed))
        verdicts, began = trip.divide(), monotonic()
        if verdicts is None:
            await self._carry_out(trip, self.connection)
        else:
            await self.in_parallel(
                self._carry_out(verdicts, self.settling), self._carry_out(trip, self.connection)
            )
        if plan is not None and plan.shares:
            self._executor.ahead.turn_took(monotonic() - began)
        return 0

    async def close(self) -> None:
        trip = RoundTrip(keys=self._keys.take_last(), limits=self._limits.take_last())
        if trip.keys or trip.limits.opened:
            # They came while the last turn was under way. Others find them if this fails.
            with suppress(HeadwayError):
                await self._send(trip, self.connection)
        await self.connection.close()
        await self.settling.close()

    # -- one round trip ---------------------------------------------------------------------------

    def _plan(self) -> ClaimPlan | float | None:
        if self.worker_id == 0 or self._draining:
            return None
        executor = self._executor
        free = executor.free(ahead=self._planner.may_claim_ahead)
        return self._planner.next(free, executor.free_of, executor.running_of, self.poll)

    async def _carry_out(self, trip: RoundTrip, connection: EngineConnection) -> None:
        """Send a round trip and take in the answers. Put everything back if it fails."""
        asked_by = self.worker_id
        try:
            answers = await self._send(trip, connection)
        except BaseException as error:
            self._undo(trip)
            if not is_about_data(error) or (trip.batch is None and not trip.keys.in_commit):
                self._unsent(trip.batch, error)
                raise
            log.warning("the server refused a round trip; its parts are sent alone: %s", error)
            if trip.batch is not None:
                await self._settle_alone(trip.batch, connection)
            self._keys.refused(trip.keys)  # now their room is committed (K3)
        else:
            self._take_in(trip, answers, asked_by)

    async def _send(self, trip: RoundTrip, connection: EngineConnection) -> Answers:
        try:
            return await trip.send(connection, self.worker_id, self._clock.now())
        except BaseException as error:
            if trip.plan is not None:
                self._planner.failed(refused=is_about_data(error), too_slow=is_too_slow(error))
                self._orphans.claim_failed()
            raise

    def _undo(self, trip: RoundTrip) -> None:
        """Put back everything that a failed round trip took, except for its verdicts."""
        self._keys.undo(trip.keys)
        self._limits.undo(trip.limits)

    def _take_in(self, trip: RoundTrip, answers: Answers, asked_by: int) -> None:
        if trip.batch is not None:
            self.settler.sent(trip.batch, answers.not_settled)
        self._keys.committed(trip.keys, answers.admission)
        claims = answers.claims
        if claims is None:
            self._planner.learn_control()
            claims = []
        elif trip.plan is not None:
            self._planner.learn(trip.plan, claims, answers.limits, answers.lanes, answers.controls)
            self._receive(claims, asked_by)
        self._limits.committed(trip.limits, claims)

    def _receive(self, claims: Sequence[Claim], asked_by: int) -> None:
        """Start claimed jobs. Give them back if the lease was lost before the reply came, or if the
        worker is stopping. That write is fenced like any other."""
        if asked_by == self.worker_id and not self._draining:
            self._executor.start(claims)
            self._keys.started(claims)
        else:
            for claim in claims:
                self.settler.add(claim, RELEASE)

    async def _settle_alone(self, batch: VerdictBatch, connection: EngineConnection) -> None:
        """Send verdicts without anything else, and bisect those that the server refuses, without a
        pause in between. A verdict that is refused by itself is replaced.

        The transaction that was refused has left its mark on their rows, which then look locked. So
        these batches are careful: they lock the rows first (finish.sql).
        """
        waiting = [VerdictBatch.of(list(batch), careful=True)]
        while waiting:
            part = waiting.pop()
            try:
                answers = await self._send(RoundTrip(part), connection)
            except BaseException as error:
                if not is_about_data(error):
                    self._unsent(part, error)
                    for rest in waiting:
                        self.settler.unsent(rest)
                    raise
                if len(part) > 1:
                    waiting += reversed(part.halves())
                elif (instead := self.settler.refused(next(iter(part)), error)) is not None:
                    waiting.append(VerdictBatch.of([instead], careful=True))
            else:
                self.settler.sent(part, answers.not_settled)

    def _unsent(self, batch: VerdictBatch | None, error: BaseException) -> None:
        if batch is not None:
            self.settler.unsent(batch)
            if is_too_slow(error):
                self.settler.shrink(batch)

    # -- orphans ----------------------------------------------------------------------------------

    def _orphans_in(self) -> float | None:
        return self._orphans.due_in() if self.worker_id else None

    async def _adopt_orphans(self) -> None:
        """Start jobs that a claim without an answer took all the same."""
        if self._orphans_in() == 0:
            asked_by = self.worker_id
            known = [*self._executor.claims(), *self.settler.unsettled_claims()]
            self._receive(await self._orphans.find(asked_by, known), asked_by)


def _soonest(*rests: float | None) -> float | None:
    """Return the shortest of these rests. None means to rest until something happens."""
    return min((rest for rest in rests if rest is not None), default=None)
