"""The worker's one conversation with the database about jobs: verdicts in, claims out.

One connection, one round trip at a time. Whatever is due goes together: verdicts to settle, jobs to
claim, or both in one commit. While a round trip is under way handlers run, and their verdicts make
the next batch: batches follow demand by themselves, and nothing waits for a fixed cadence.

Room that a batch frees under a key is handed on in its commit, so that what gets it can be claimed there;
but while there is more to claim than there are slots, in parallel with it (handover.py).

A fault is charged to whatever caused it (G8). If the server refuses the data of a round trip, the
verdicts are sent alone and bisected down to the bad one, and the claim forgets its lines and scans again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from headway.core.clock import Clock, monotonic
from headway.core.verdict import RELEASE
from headway.engine.claiming.limits import LimitName
from headway.engine.claiming.planner import Claimer, Plan
from headway.engine.jobs.settler import Batch, Settler
from headway.engine.keys.handoff import KEYS_AT_ONCE, Freed, HandOver
from headway.engine.running.executor import Executor
from headway.engine.service import Service, log
from headway.errors import HeadwayError
from headway.store import controls, jobs
from headway.store.faults import is_about_data, is_too_slow
from headway.store.link import Link
from headway.store.rows import Claim, Lane, NotSettled
from headway.store.statement import Statement

_ORPHANS_APPEAR_WITHIN = 40.0
"""Seconds after which a claim without an answer is over at the server, too: more than a statement
may last there."""
_ORPHANS_EVERY = 5.0
_ORPHANS_AT_ONCE = 100


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
        self._unanswered_at: float | None = None
        """When the last claim was sent whose answer did not come: it may have claimed jobs all the
        same."""
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
        """Take back keys that the hand-over could not admit under."""
        self._freed = freed | self._freed
        self.wake()

    def controls_changed(self) -> None:
        """A pause or a limit is new: what was held up may run, and what runs may count under it."""
        self._claimer.hint()
        self._recounts = True
        self.wake()

    async def drain(self) -> None:
        """Claim nothing more. Returns when no claim is under way either."""
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
        in_parallel = self._hand_over.able and (self._claimer.sated or self._hand_over.busy)
        rooms = self._rooms(batch)
        plan = self._plan()
        if not isinstance(plan, Plan):
            if batch is None and not freed and not self._to_ring and not self._recounts:
                self._to_ring |= rooms.keys()
                return 0 if rooms else _sooner(plan, self.settler.due_in(), self._orphans_in())
            plan = None
        rung, self._to_ring = self._to_ring, set[LimitName]()
        recounts, self._recounts = self._recounts, False
        keys = Freed() if in_parallel else Freed(islice(freed.items(), KEYS_AT_ONCE))
        try:
            answers = await self._send(batch, keys, plan, rung, recounts=recounts)
        except BaseException as error:
            self._freed = freed | self._freed
            self._to_ring |= rung | rooms.keys()
            self._recounts |= recounts
            if not is_about_data(error) or (batch is None and not keys):
                self._unsent(batch, error)
                raise
            log.warning("the server refused a round trip; its parts are sent alone: %s", error)
            if keys and self._hand_over.able:
                self._freed = Freed((key, None) for key in self._freed if key not in keys)
                self._hand_over.give(keys)
            if batch is not None:
                await self._settle_alone(batch)
            return 0
        if batch is not None:
            self.settler.sent(batch, _not_settled(answers))
        if in_parallel:
            self._hand_over.give(freed)
        else:
            self._freed = Freed(islice(freed.items(), KEYS_AT_ONCE, None)) | self._freed
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
                keys = Freed(islice(self._freed.items(), KEYS_AT_ONCE))
                await self._send(None, keys, None, self._to_ring)
        await self._link.close()

    def _receive(self, claims: Sequence[Claim], asked_by: int) -> None:
        """Start what was claimed. Give it back if the lease was lost before the reply came, or if the
        worker is stopping; that write is fenced like any other."""
        assert self._executor is not None
        if asked_by == self.worker_id and not self.draining:
            self._executor.start(claims)
            self._freed.update((claim.key, None) for claim in claims if claim.opens and claim.key)
        else:
            for claim in claims:
                self.settler.add(claim, RELEASE)

    def _freed_by(self, batch: Batch | None) -> Freed:
        """Return the concurrency keys under which there may be room when this batch has been settled, in
        the order of their ends."""
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
        """Return how much room this batch, and what was settled elsewhere, frees under which limits."""
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
        """Return the answers of one round trip. When it fails, everything is as it was before."""
        try:
            sending = self._statements(batch, keys, plan, rung, recounts=recounts)
            answers = dict(zip(sending, await self._link.run_all(*sending.values()), strict=True))
        except BaseException as error:
            if plan is not None:
                self._claimer.failed(refused=is_about_data(error), too_slow=is_too_slow(error))
                self._unanswered_at = monotonic()
                self._orphans_at = 0.0
            raise
        if "admit" in answers:
            self._room_in(answers["admit"].room_in)
        return answers

    def _statements(
        self,
        batch: Batch | None,
        keys: Freed,
        plan: Plan | None,
        rung: set[LimitName],
        *,
        recounts: bool,
    ) -> dict[str, Statement[Any]]:
        target, now = self._link.target, self._clock.now()
        sending: dict[str, Statement[Any]] = {}
        if batch is not None and batch.finish:
            sending["finish"] = jobs.finish(target, batch.finish, now, careful=batch.careful)
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
        if recounts and self.worker_id:
            # A claim that was under way when the limit was set is over: it can be seen, and is marked.
            sending["mark"] = controls.mark_limited(self.worker_id)
        if plan is not None and plan.shares:
            if plan.limits:
                sending["limits"] = controls.lock(*_by_kind(plan.limits), now)
                if plan.from_start:
                    names = _by_kind(plan.limits)
                    sending["rooms"] = controls.lock(*names, now, counting=True)
            sending["claim"] = jobs.claim(self.worker_id, plan.shares, now)
        return sending

    async def _settle_alone(self, batch: Batch) -> None:
        """Send verdicts without anything else, and bisect what the server refuses down to the bad
        verdict, without a pause in between. A verdict that is refused by itself is replaced.

        The transaction that was refused has left its mark on their rows, which would pass for locked
        ones: so they are locked first (finish.sql)."""
        waiting = [Batch.of(list(batch), careful=True)]
        while waiting:
            part = waiting.pop()
            try:
                answers = await self._send(part, Freed(), None, set())
            except BaseException as error:
                if not is_about_data(error):
                    self._unsent(part, error)
                    for rest in waiting:
                        self.settler.unsent(rest)
                    raise
                if len(part) > 1:
                    waiting += reversed(part.halves())
                elif (instead := self.settler.refused(next(iter(part)), error)) is not None:
                    waiting.append(Batch.of([instead], careful=True))
            else:
                self.settler.sent(part, _not_settled(answers))

    def _unsent(self, batch: Batch | None, error: BaseException) -> None:
        if batch is not None:
            self.settler.unsent(batch)
            if is_too_slow(error):
                self.settler.shrink(batch)

    def _orphans_in(self) -> float | None:
        if self._unanswered_at is None or self.worker_id == 0:
            return None
        return max(0.0, self._orphans_at - monotonic())

    async def _adopt_orphans(self) -> None:
        """After a claim without an answer: take on what it may have claimed all the same.

        The server may still be at it when the connection is long gone. So this looks again until a
        look that began after the longest time a statement may last there has found nothing,
        however long the outage lasts."""
        now = monotonic()
        if self._unanswered_at is None or now < self._orphans_at or self.worker_id == 0:
            return
        if self._executor is None:
            return
        known = [*self._executor.claims(), *self.settler.unsettled_claims()]
        asked_by, unanswered_at = self.worker_id, self._unanswered_at
        orphans = await self._link.run(jobs.orphans(asked_by, known, _ORPHANS_AT_ONCE))
        if orphans:
            log.info("took on %d jobs from a claim whose reply was lost", len(orphans))
            self._receive(orphans, asked_by)
        elif now >= unanswered_at + _ORPHANS_APPEAR_WITHIN:
            self._unanswered_at = None
        self._orphans_at = now if len(orphans) == _ORPHANS_AT_ONCE else now + _ORPHANS_EVERY


def _sooner(*rests: float | None) -> float | None:
    """Return the shortest of these rests; None is until something happens."""
    return min((rest for rest in rests if rest is not None), default=None)


def _not_settled(answers: Mapping[str, Any]) -> NotSettled:
    found: NotSettled = {}
    for name in ("finish", "advance", "requeue"):
        found |= answers.get(name, {})
    return found


def _by_kind(limits: set[LimitName]) -> tuple[list[str], list[str]]:
    """Return the queues and the tasks of these limits."""
    return (
        sorted(name for kind, name in limits if kind == "queue"),
        sorted(name for kind, name in limits if kind == "task"),
    )
