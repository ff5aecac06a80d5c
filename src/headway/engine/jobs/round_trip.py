"""The worker's one conversation with the database about jobs: verdicts in, claims out.

One connection, one round trip at a time. Whatever is due goes together: verdicts to settle, jobs to
claim, or both in one commit. While a round trip is under way handlers run, and their verdicts make
the next batch: batches follow demand by themselves, and nothing waits for a fixed cadence.

Room that a batch frees under a key is handed on in its commit, so that what gets it can be claimed there;
but while there is more to claim than there are slots, beside it (handover.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from headway.core.clock import Clock, monotonic
from headway.core.verdict import RELEASE
from headway.engine.claiming.limits import LimitName
from headway.engine.claiming.planner import Claimer, Plan
from headway.engine.jobs.settler import Batch, Settler
from headway.engine.keys.handoff import Freed, HandOver
from headway.engine.running.executor import Executor
from headway.engine.service import Service, log
from headway.errors import HeadwayError
from headway.store import controls, jobs
from headway.store.faults import is_about_data
from headway.store.link import Link
from headway.store.rows import Claim, Lane
from headway.store.statement import Statement

_ORPHANS_APPEAR_WITHIN = 60.0
_ORPHANS_EVERY = 5.0


class Exchange(Service):
    """Settles and claims."""

    def __init__(
        self,
        link: Link,
        clock: Clock,
        claimer: Claimer,
        batch: int,
        hand_over: HandOver,
        *,
        room_in: Callable[[Mapping[str, float]], None],
    ) -> None:
        """`room_in` is told of keys that will have room, and in how many seconds."""
        super().__init__()
        self._hand_over = hand_over
        hand_over.serve(self.take_back)
        self._room_in = room_in
        self._link = link
        self._clock = clock
        self._claimer = claimer
        self.settler = Settler(batch, self.wake)
        self.worker_id = 0
        """The id to claim by; 0 for no claims: the lease is not sure."""
        self.draining = False
        self.poll = 0.0
        self._executor: Executor | None = None
        self._orphans_until = 0.0
        self._orphans_at = 0.0
        self._turning = asyncio.Lock()
        self._freed = Freed()
        self._to_ring = set[LimitName]()
        """Limits under which others may have waited for the room that was freed here."""
        self._recounts = False
        """What runs here may not know of a limit yet."""

    def serve(self, executor: Executor) -> None:
        """Claims are for this executor."""
        self._executor = executor

    def hand_on(self, key: str) -> None:
        """Room under this key was freed elsewhere: the next of its line is due."""
        self._freed[key] = None
        self.wake()

    def take_back(self, freed: Freed) -> None:
        """What was to be handed on beside, and could not be."""
        self._freed = freed | self._freed
        self.wake()

    def controls_changed(self) -> None:
        """A pause or a limit is new: what was held up may run, and what runs may count under it."""
        self._claimer.hint()
        self._recounts = True
        self.wake()

    async def drain(self) -> None:
        """Claims nothing more; returns when no claim is under way either."""
        self.draining = True
        async with self._turning:
            pass

    async def turn(self) -> float | None:
        async with self._turning:
            return await self._turn()

    async def _turn(self) -> float | None:
        await self._adopt_orphans()
        asked_by = self.worker_id
        batch = self.settler.take()
        freed, self._freed = self._freed_by(batch), Freed()
        beside = self._hand_over.able and (self._claimer.sated or self._hand_over.busy)
        rooms = self._rooms(batch)
        plan = self._plan()
        if not isinstance(plan, Plan):
            if batch is None and not freed and not self._to_ring and not self._recounts:
                self._to_ring |= rooms.keys()
                return 0 if rooms else plan
            plan = None
        rung, self._to_ring = self._to_ring, set[LimitName]()
        recounts, self._recounts = self._recounts, False
        try:
            keys = Freed() if beside else freed
            answers = await self._send(batch, keys, plan, rung, recounts=recounts)
        except BaseException:
            self._freed = freed | self._freed
            self._to_ring |= rung | rooms.keys()
            self._recounts |= recounts
            raise
        if batch is not None:
            untouched = [*answers.get("advance", ()), *answers.get("requeue", ())]
            self.settler.sent(batch, answers.get("finish", ()), untouched)
        if beside:
            self._hand_over.give(freed)
        claims: list[Claim] = answers.get("claim", [])
        if plan is not None and self._executor is not None:
            self._claimer.learn(
                plan,
                claims,
                answers.get("rooms", answers.get("limits", ())),
                answers.get("lanes"),
                answers.get("controls"),
            )
            self._receive(claims, asked_by)
        if rooms:
            rooms.subtract(self._claimer.limits.count(claims))
        self._to_ring |= {name for name, room in rooms.items() if room > 0}
        return 0

    async def close(self) -> None:
        if self._freed or self._to_ring:
            # Told of it while the last turn was under way; the fleet has heard of it as well.
            with suppress(HeadwayError):
                await self._send(None, self._freed, None, self._to_ring)
        await self._link.close()

    def _receive(self, claims: Sequence[Claim], asked_by: int) -> None:
        """Starts what was claimed, unless the reply took so long that it may not be ours any more, or
        the worker is stopping: then it goes back, as far as it still can (the settling is fenced)."""
        assert self._executor is not None
        if asked_by == self.worker_id and not self.draining:
            self._executor.start(claims)
            self._freed.update((claim.key, None) for claim in claims if claim.opens and claim.key)
        else:
            for claim in claims:
                self.settler.add(claim, RELEASE)

    def _freed_by(self, batch: Batch | None) -> Freed:
        """The concurrency keys under which there may be room when this batch has been settled, in the
        order of their ends."""
        touching = [
            settled
            for settled in batch or ()
            if settled.claim.key is not None or settled.verdict.advance is not None
        ]
        for queue, priority in {(one.claim.queue, one.claim.priority) for one in touching}:
            # What gets the room, or the next step, is most likely of the same lane, and ours to run.
            self._claimer.hint(Lane(queue, priority))
        freed = self._freed
        freed.update((key, None) for settled in touching for key in settled.touched_keys)
        return freed

    def _rooms(self, batch: Batch | None) -> Counter[LimitName]:
        """How much room this batch, and what was settled elsewhere, frees under which limits."""
        here = (settled.claim for settled in batch or ())
        rooms = self._claimer.limits.count(chain(here, self.settler.take_elsewhere()))
        for name in rooms:
            self._claimer.open(name)
        return rooms

    def _plan(self) -> Plan | float | None:
        if self._executor is None or self.worker_id == 0 or self.draining:
            return None
        executor = self._executor
        return self._claimer.next(executor.free, executor.free_of, executor.running_of, self.poll)

    async def _send(
        self,
        batch: Batch | None,
        keys: Freed,
        plan: Plan | None,
        rung: set[LimitName],
        *,
        recounts: bool = False,
    ) -> dict[str, Any]:
        target, now = self._link.target, self._clock.now()
        sending: dict[str, Statement[Any]] = {}
        if batch is not None and batch.finish:
            sending["finish"] = jobs.finish(target, batch.finish, now)
        if batch is not None and batch.advance:
            sending["advance"] = jobs.advance(target, batch.advance, now)
        if batch is not None and batch.requeue:
            sending["requeue"] = jobs.requeue(target, self.worker_id, batch.requeue, now)
        # Room is handed on in the transaction that frees it, and what gets it may be claimed there.
        if keys:
            sending["lock"] = jobs.lock_keys(keys)
            sending["admit"] = jobs.admit(target, keys, now)
        if plan is not None and plan.look:
            sending["lanes"] = self._claimer.question()
            sending["controls"] = controls.read(now)
        if rung:
            sending["ring"] = controls.ring_open(target, rung)
        if recounts:
            # A claim that was under way when the limit was set is over: it can be seen, and is marked.
            sending["mark"] = controls.mark_limited()
        if plan is not None and plan.shares:
            if plan.limits:
                sending["limits"] = controls.lock(*_by_kind(plan.limits), now)
                if plan.from_start:
                    names = _by_kind(plan.limits)
                    sending["rooms"] = controls.lock(*names, now, counting=True)
            sending["claim"] = jobs.claim(self.worker_id, plan.shares, now)
        try:
            answers = dict(zip(sending, await self._link.run_all(*sending.values()), strict=True))
        except BaseException as error:
            if plan is not None:
                self._claimer.failed()
                self._orphans_until = monotonic() + _ORPHANS_APPEAR_WITHIN
                self._orphans_at = 0.0
            if batch is not None:
                if is_about_data(error):
                    self.settler.refused(batch, error)
                else:
                    self.settler.unsent(batch)
            raise
        if "admit" in answers:
            self._room_in(answers["admit"].room_in)
        return answers

    async def _adopt_orphans(self) -> None:
        """After a claim without an answer: takes on what it may have claimed all the same.

        The server may still be at it when the connection is long gone, so this looks again for as
        long as a statement may last there.
        """
        now = monotonic()
        if now >= self._orphans_until or now < self._orphans_at or self.worker_id == 0:
            return
        if self._executor is None:
            return
        known = [*self._executor.running, *self.settler.unsettled_ids()]
        asked_by = self.worker_id
        orphans = await self._link.run(jobs.orphans(asked_by, known))
        self._orphans_at = now + _ORPHANS_EVERY
        if orphans:
            log.info("took on %d jobs from a claim whose reply was lost", len(orphans))
            self._receive(orphans, asked_by)


def _by_kind(limits: set[LimitName]) -> tuple[list[str], list[str]]:
    """The queues and the tasks of these limits."""
    return (
        sorted(name for kind, name in limits if kind == "queue"),
        sorted(name for kind, name in limits if kind == "task"),
    )
