"""The commands of a fleet and its users, in any order."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from headway.core.failure import PROCESS_DIED, envelope
from headway.core.flow import Advance
from headway.core.retry import Retry
from headway.core.state import State
from headway.core.verdict import Broke, Moved, Raised, Returned, Stopped
from headway.errors import Fatal, Snooze
from headway.store.rows import Claim, Lane
from headway.store.statements import fleet, jobs
from tests.model.job import HANDLERS, NO_LINE, Line
from tests.model.model import LEASE
from tests.model.pair import End, Heard, Pair
from tests.store.store import TASK, Asked, Store, ask

QUEUES = ("a", "b")
_PRIORITIES = (5, 0)
_LATER = Retry(backoff="constant", base=10, jitter=0)
_NOW = Retry(backoff="constant", base=0, jitter=0)

LINES = (Line("one", 1), Line("two", 2), Line("three", 3), Line("in order", 1, ordered=True))
TENANTS = (Line(f"{TASK}/x", 0), Line(f"{TASK}/y", 0))
"""Keys of `Limit(key=...)`: all of them share one setting of concurrency and rate."""
PACKED = Line(f"{TASK}/pack/x", 0)
"""The same, of a flow's step."""
_UNIQUE = ("u1", "u2")


def moved(step: str, delay: float, line: Line, queue: str = "a", priority: int = 0) -> Moved:
    """Draw the outcome of a step that moves its flow to another step, or to itself."""
    line_of = {"key": line.key, "key_limit": line.limit, "ordered": line.ordered}
    return Moved(Advance(step, b'{"at": 1}', delay, queue, priority, 2, **line_of))


members = st.sampled_from([0, 1, 2])
CONSUMER = 2
"""The member that is a consumer in SQL."""
_lines = st.sampled_from([NO_LINE, *LINES, *TENANTS, TENANTS[0]])


def _moves_to(step: str, *lines: Line) -> st.SearchStrategy[Moved]:
    return st.builds(
        moved,
        st.just(step),
        st.sampled_from([0.0, 0.0, 15.0]),
        st.sampled_from([NO_LINE, NO_LINE, *LINES, *lines]),
        st.sampled_from(QUEUES),
        st.sampled_from(_PRIORITIES),
    )


_moves = _moves_to("pack", PACKED, PACKED) | _moves_to("mail")
ends_of: st.SearchStrategy[End] = st.tuples(_moves, st.just(_NOW)) | st.sampled_from(
    [
        (Returned(b'"done"'), _NOW),
        (Raised(ValueError("tried again later")), _LATER),
        (Raised(ValueError("tried again at once")), _NOW),
        (Raised(Fatal("never tried again")), _NOW),
        (Raised(Snooze(20)), _NOW),
        (Raised(Snooze(0)), _NOW),
        (Broke(envelope(PROCESS_DIED, "its process died"), again=True), _NOW),
        (Stopped("cancel"), _NOW),
        (Stopped("shutdown"), _NOW),
    ]
)


class Machine(RuleBasedStateMachine):
    known = Bundle("jobs")
    claims = Bundle("claims")

    def __init__(self, store: Store, heard: Heard) -> None:
        super().__init__()
        self.pair = Pair(store, heard)
        self.model, self.target = self.pair.model, store.target
        self.fleet = [self.pair.register(consumes=member == CONSUMER) for member in range(3)]

    @property
    def now(self) -> Any:
        return self.model.now

    @invariant()
    def agree(self) -> None:
        self.pair.agree()

    # -- making jobs ------------------------------------------------------------------------------

    @initialize(target=known)
    def begin(self) -> Any:
        return self.enqueue("a", 0, None, None, 2, 3, NO_LINE)

    @rule(
        target=known,
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from(_PRIORITIES),
        delay=st.sampled_from([None, None, 0.0, 10.0, 60.0]),
        ttl=st.sampled_from([None, None, 25.0]),
        most=st.integers(1, 3),
        many=st.integers(1, 4),
        line=_lines,
    )
    def enqueue(
        self, queue: str, priority: int, delay: Any, ttl: Any, most: int, many: int, line: Line
    ) -> Any:
        lane = Lane(queue, priority)
        return multiple(*self.pair.enqueue(lane, delay, ttl, most, line, [None] * many))

    @rule(
        target=known,
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from(_PRIORITIES),
        delay=st.sampled_from([None, None, 10.0]),
        line=_lines,
        keys=st.lists(st.sampled_from(_UNIQUE), min_size=1, max_size=3),
        on_taken=st.sampled_from(["skip", "replace", "replace", "reject"]),
        until_claimed=st.booleans(),
    )
    def enqueue_unique(
        self,
        queue: str,
        priority: int,
        delay: Any,
        line: Line,
        keys: list[str | None],
        on_taken: str,
        until_claimed: bool,
    ) -> Any:
        made = self.pair.enqueue(
            Lane(queue, priority), delay, None, 2, line, keys, on_taken, until_claimed=until_claimed
        )
        return multiple(*made)

    @rule(
        target=known,
        keys=st.lists(st.sampled_from(_UNIQUE), min_size=1, max_size=2),
        on_taken=st.sampled_from(["skip", "reject"]),
    )
    def enqueue_for_a_while(self, keys: list[str | None], on_taken: str) -> Any:
        """A unique key that is taken for a period, whatever becomes of its job."""
        lane = Lane("a", 0)
        return multiple(
            *self.pair.enqueue(lane, None, None, 2, NO_LINE, keys, on_taken, period=25.0)
        )

    # -- claiming and settling --------------------------------------------------------------------

    @rule(
        target=claims,
        member=members,
        dead=st.booleans(),
        room=st.integers(1, 6),
        of_a=st.integers(1, 6),
        first=st.sampled_from(QUEUES),
        behind=st.sampled_from([False, False, True]),
        knows=st.sampled_from([True, True, True, False]),
    )
    def claim(
        self,
        member: int,
        dead: bool,
        room: int,
        of_a: int,
        first: str,
        behind: bool,
        knows: bool = True,
    ) -> Any:
        """By a member of the fleet: a lost one registers again before it claims, or does not. One
        that has not heard of a limit takes nothing that is under it."""
        worker = self.fleet[member] if dead else self._living(member)
        places = sorted(job.seq or 0 for job in self.model.jobs.values())
        cursor = places[len(places) // 2] if behind else 0
        alone = self.model.controls.bound("task") if knows else set[str]()
        asks = self._asks(alone, cursor, room, of_a, first)
        return multiple(*self.pair.claim(worker, asks, room, locks=knows))

    @rule(target=claims, member=members, ends=st.lists(ends_of, max_size=5))
    def work(self, member: int, ends: list[End]) -> Any:
        """The usual course: jobs with room are admitted, some are claimed, most are settled."""
        self.admit_all()
        self.agree()
        got = self._claim(member, 5)
        self.agree()
        self.pair.settle(list(zip(got, ends, strict=False)))
        return multiple(*got)

    @precondition(lambda self: self.pair.current)
    @rule(data=st.data(), ends=st.lists(ends_of, min_size=1, max_size=4))
    def settle(self, data: st.DataObject, ends: list[End]) -> None:
        """Draw the newest claims of some jobs, as one batch. Others may have the jobs by now."""
        ids = sorted(self.pair.current)
        picked = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
        claims = [self.pair.current[job_id] for job_id in picked]
        self.pair.settle(list(zip(claims, ends, strict=False)))

    @rule(claim=claims, end=ends_of)
    def settle_any(self, claim: Claim, end: End) -> None:
        """By any claim that there ever was, in a transaction that hands no room on."""
        self.pair.settle([(claim, end)], hand_on=False)

    @precondition(lambda self: self.pair.zombies())
    @rule(data=st.data(), end=ends_of)
    def settle_late(self, data: st.DataObject, end: End) -> None:
        """By a claim whose job runs again, under another one."""
        self.pair.settle([(data.draw(st.sampled_from(self.pair.zombies())), end)])

    @rule(claim=claims)
    def note_progress(self, claim: Claim) -> None:
        job = self.model.jobs[claim.id]
        current = job.state is State.RUNNING and job.claim == claim.number
        assert self.pair.run("progress", jobs.progress([(claim, {"percent": 1})])) == current
        held = {claim.id: claim.id in self.model.asked} if current else {}
        assert self.pair.run("held", jobs.held([claim])) == held

    # -- the fleet --------------------------------------------------------------------------------

    @rule(member=members)
    def heartbeat(self, member: int) -> None:
        worker = self.fleet[member]
        beat = self.pair.run("heartbeat", fleet.heartbeat(worker, LEASE.total_seconds(), self.now))
        assert (beat is not None) == self.model.alive(worker)
        if beat is not None:
            self.model.leases[worker] = self.now + LEASE

    @rule()
    def promote(self) -> None:
        done = self.pair.run("promote", jobs.promote(self.target, None, 99, self.now))
        assert done.count == self.model.promote()

    @rule()
    def expire(self) -> None:
        done = self.pair.run("expire", jobs.expire(self.target, 99, self.now))
        assert done == self.model.expire()

    @rule(keys=st.sets(st.sampled_from([line.key or "" for line in (*LINES, *TENANTS, PACKED)])))
    def admit(self, keys: set[str]) -> None:
        self.pair.admit(keys)

    @rule()
    def admit_all(self) -> None:
        self.pair.admit_all()

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0, 20.0, 30.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.pair.advance(seconds)

    # -- people -----------------------------------------------------------------------------------

    @rule(job_id=known)
    def cancel(self, job_id: str) -> None:
        came_to = self.pair.run("cancel", jobs.cancel(self.target, [job_id], self.now))
        assert came_to.get(job_id) == self.model.cancel(self.model.jobs[job_id])

    @precondition(lambda self: self.model.all(State.RUNNING))
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        running = sorted(job.id for job in self.model.all(State.RUNNING))
        self.cancel(data.draw(st.sampled_from(running)))

    @rule(job_id=known, from_step=st.sampled_from([None, None, "pack", "mail"]))
    def retry(self, job_id: str, from_step: str | None = None) -> None:
        self.pair.revive(self.model.jobs[job_id], from_step)

    @rule(job_id=known, value=st.integers(0, 9))
    def edit(self, job_id: str, value: int) -> None:
        self.pair.edit(self.model.jobs[job_id], value)

    def _living(self, member: int) -> int:
        """A process whose lease ran out registers again. Another process replaces a dead one."""
        worker = self.fleet[member]
        if not self.model.alive(worker):
            was = None if worker in self.model.died else worker
            self.fleet[member] = self.pair.register(consumes=member == CONSUMER, was=was)
        return self.fleet[member]

    def _claim(self, member: int, room: int) -> list[Claim]:
        asks = self._asks(self.model.controls.bound("task"))
        return self.pair.claim(self._living(member), asks, room)

    def _asks(
        self,
        alone: Collection[str],
        cursor: int = 0,
        room: int = 100,
        of_a: int = 100,
        first: str = "a",
    ) -> list[Asked]:
        """Every lane; a handler that has a limit on a line of its own, and on one lane only."""
        together = [handler for handler in HANDLERS if handler not in alone]
        lanes = [
            Lane(queue, priority)
            for queue in sorted(QUEUES, key=lambda queue: queue != first)
            for priority in _PRIORITIES
        ]
        asks: list[Asked] = []
        for lane in lanes:
            most = of_a if lane.queue == "a" else room
            asks.append(ask(*lane, cursor=cursor, room=most, tasks=together))
            for handler in sorted(alone):
                if lane == self._lane_of(handler, lanes):
                    asks.append(ask(*lane, cursor=cursor, room=most, tasks=[handler], alone=True))
        return asks

    def _lane_of(self, handler: str, lanes: list[Lane]) -> Lane:
        ready = {job.lane for job in self.model.all(State.READY) if job.handler == handler}
        return next((lane for lane in lanes if lane in ready), lanes[0])
