"""What a fleet and its users may do, in any order: each command to PostgreSQL and to the model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

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

from headway.core.retry import Retry
from headway.core.state import State
from headway.core.verdict import Outcome, Raised, Returned, Stopped, decide
from headway.errors import Fatal, Snooze
from headway.store import fleet, jobs
from headway.store.jobs import Ask, Settled
from headway.store.rows import Claim, Lane
from headway.store.statement import R, Statement
from tests.model.invariants import Invariants, Snapshot
from tests.model.model import LEASE, Job, Model
from tests.store.store import Store, ask, new_job

_QUEUES = ("a", "b")
_PRIORITIES = (5, 0)
_LATER = Retry(backoff="constant", base=10, jitter=0)
_NOW = Retry(backoff="constant", base=0, jitter=0)

_ends: st.SearchStrategy[tuple[Outcome, Retry]] = st.sampled_from(
    [
        (Returned(b'"done"'), _NOW),
        (Raised(ValueError("tried again later")), _LATER),
        (Raised(ValueError("tried again at once")), _NOW),
        (Raised(Fatal("never tried again")), _NOW),
        (Raised(Snooze(20)), _NOW),
        (Raised(Snooze(0)), _NOW),
        (Stopped("cancel"), _NOW),
        (Stopped("shutdown"), _NOW),
    ]
)


class Machine(RuleBasedStateMachine):
    known = Bundle("jobs")
    claims = Bundle("claims")

    def __init__(self, store: Store) -> None:
        super().__init__()
        store.clear()
        self.store = store
        self.model = Model(store.now)
        self.always = Invariants()
        self.command = ""
        self.newest = 0
        self.current: dict[str, Claim] = {}
        self.fleet = [self._register(), self._register()]

    # -- commands ---------------------------------------------------------------------------------

    @initialize(target=known)
    def begin(self) -> Any:
        return self.enqueue("a", 0, None, None, 2, 3)

    @rule(
        target=known,
        queue=st.sampled_from(_QUEUES),
        priority=st.sampled_from(_PRIORITIES),
        delay=st.sampled_from([None, None, 0.0, 10.0, 60.0]),
        ttl=st.sampled_from([None, None, 25.0]),
        max_attempts=st.integers(1, 3),
        many=st.integers(1, 4),
    )
    def enqueue(
        self,
        queue: str,
        priority: int,
        delay: float | None,
        ttl: float | None,
        max_attempts: int,
        many: int,
    ) -> Any:
        fields = {"queue": queue, "priority": priority, "max_attempts": max_attempts}
        made = [new_job(**fields, delay=delay, ttl=ttl) for _ in range(many)]
        now = self.store.now
        assert self._run("enqueue", jobs.enqueue(self.store.target, made, now)) == many
        for job in made:
            self.always.inputs[job.id] = (self.store.live(job.id) or {})["input"]
            self.model.jobs[job.id] = Job(
                job.id,
                Lane(queue, priority),
                max_attempts,
                run_at=now + timedelta(seconds=delay or 0),
                expires_at=None if ttl is None else now + timedelta(seconds=ttl),
                state=State.SCHEDULED if delay else State.READY,
            )
        return multiple(*(job.id for job in made))

    @rule(
        target=claims,
        member=st.sampled_from([0, 1]),
        dead=st.sampled_from([False, False, False, True]),
        room=st.integers(1, 6),
        of_a=st.integers(1, 6),
        first=st.sampled_from(_QUEUES),
        behind=st.sampled_from([False, False, True]),
    )
    def claim(self, member: int, dead: bool, room: int, of_a: int, first: str, behind: bool) -> Any:
        """By a member of the fleet: one that was lost begins anew before it claims, or does not."""
        if not self.model.alive(self.fleet[member]) and not dead:
            self.fleet[member] = self._register()
        worker = self.fleet[member]
        places = sorted(job.seq or 0 for job in self.model.jobs.values())
        cursor = places[len(places) // 2] if behind else 0
        asks = [
            ask(queue, priority, cursor=cursor, room=of_a if queue == "a" else room)
            for queue in sorted(_QUEUES, key=lambda queue: queue != first)
            for priority in _PRIORITIES
        ]
        return multiple(*self._claim(worker, asks, room))

    @rule(target=claims, member=st.sampled_from([0, 1]), ends=st.lists(_ends, max_size=5))
    def work(self, member: int, ends: list[tuple[Outcome, Retry]]) -> Any:
        """The ordinary course of things: some are claimed, and most of them settled."""
        if not self.model.alive(self.fleet[member]):
            self.fleet[member] = self._register()
        asks = [ask(queue, priority) for queue in _QUEUES for priority in _PRIORITIES]
        got = self._claim(self.fleet[member], asks, 5)
        self.all_agree()
        self._settle(list(zip(got, ends, strict=False)))
        return multiple(*got)

    @rule(member=st.sampled_from([0, 1]))
    def crash(self, member: int) -> None:
        """A worker is lost, and soon found to be."""
        self.lose(member)
        self.all_agree()
        self.sweep("rescue")

    @precondition(lambda self: self.current)
    @rule(data=st.data(), ends=st.lists(_ends, min_size=1, max_size=4))
    def settle(self, data: st.DataObject, ends: list[tuple[Outcome, Retry]]) -> None:
        """What was claimed last of some jobs, in one batch; others may have them by now."""
        count = min(len(ends), len(self.current))
        picked = data.draw(
            st.lists(
                st.sampled_from(sorted(self.current)), min_size=count, max_size=count, unique=True
            )
        )
        claims = [self.current[job_id] for job_id in picked]
        self._settle(list(zip(claims, ends, strict=False)))

    @rule(claim=claims, end=_ends)
    def settle_any(self, claim: Claim, end: tuple[Outcome, Retry]) -> None:
        """By any claim that there ever was: most are long stale."""
        self._settle([(claim, end)])

    @rule(claim=claims)
    def note_progress(self, claim: Claim) -> None:
        job = self.model.jobs[claim.id]
        current = job.state is State.RUNNING and job.claim == claim.number
        assert self._run("progress", jobs.progress([(claim, {"percent": 1})])) == current
        held = {claim.id: job.cancelling} if current else {}
        assert self._run("held", jobs.held([claim])) == held

    @rule(member=st.sampled_from([0, 1]))
    def heartbeat(self, member: int) -> None:
        worker, now = self.fleet[member], self.store.now
        beat = self._run("heartbeat", fleet.heartbeat(worker, LEASE.total_seconds(), now))
        assert (beat is not None) == self.model.alive(worker)
        if beat is not None:
            self.model.leases[worker] = now + LEASE

    @rule(member=st.sampled_from([0, 1]))
    def lose(self, member: int) -> None:
        worker = self.fleet[member]
        self._run("lose", fleet.retire(worker, self.store.now))
        self.model.leases[worker] = self.store.now

    @rule(which=st.sampled_from(["rescue", "promote", "expire"]))
    def sweep(self, which: str) -> None:
        target, now = self.store.target, self.store.now
        match which:
            case "rescue":
                assert self._run(which, jobs.rescue(target, 99, now)) == self.model.rescue()
            case "promote":
                done = self._run(which, jobs.promote(target, None, 99, now))
                assert done.count == self.model.promote()
            case _:
                assert self._run(which, jobs.expire(target, 99, now)) == self.model.expire()

    @rule(job_id=known)
    def cancel(self, job_id: str) -> None:
        statement = jobs.cancel(self.store.target, UUID(job_id), self.store.now)
        assert self._run("cancel", statement) == self.model.cancel(self.model.jobs[job_id])

    @rule(job_id=known)
    def retry(self, job_id: str) -> None:
        job = self.model.jobs[job_id]
        ended = job.state.finished
        statement = jobs.revive(self.store.target, UUID(job_id), self.store.now)
        revived = self._run("retry", statement)
        assert revived == self.model.revive(job)
        if ended and revived:
            self.always.life_began[job_id] = job.claim

    @rule(queue=st.sampled_from(_QUEUES))
    def pause_or_resume(self, queue: str) -> None:
        if queue in self.model.paused:
            assert self._run("resume", fleet.resume(self.store.target, queue))
            self.model.paused.discard(queue)
        else:
            assert not self._run("resume", fleet.resume(self.store.target, queue))
            self._run("pause", fleet.pause(queue, None, None, self.store.now))
            self.model.paused.add(queue)

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0, 20.0, 30.0, 100.0]))
    def advance(self, seconds: float) -> None:
        self.command = "advance"
        self.store.advance(seconds)
        self.model.now = self.store.now

    # -- checks, after each of them ---------------------------------------------------------------

    @invariant()
    def all_agree(self) -> None:
        seen = Snapshot.take(self.store)
        self.always.check(seen, self.store.now, self.command)
        self._adopt_places(seen)
        facts = {job_id: _facts(row) for job_id, row in (seen.live | seen.archived).items()}
        assert facts == {job.id: _expected(job) for job in self.model.jobs.values()}
        attempts = [
            (str(row["job_id"]), row["claim"], row["attempt"], row["error"]["type"])
            for row in seen.attempts
        ]
        assert sorted(attempts) == sorted(self.model.attempts)

    def _adopt_places(self, seen: Snapshot) -> None:
        """Places newly drawn must be behind all that were drawn before; which one is no matter."""
        drawn = [job for job in self.model.jobs.values() if job.seq is None]
        drawn = [job for job in drawn if not job.state.finished]
        for job in drawn:
            job.seq = seen.live[job.id]["seq"]
            assert job.seq is not None
            assert job.seq > self.newest, "a new place is at the tail"
        self.newest = max([self.newest, *(job.seq or 0 for job in drawn)])

    def _run(self, command: str, statement: Statement[R]) -> R:
        self.command = command
        return self.store.run(statement)

    def _register(self) -> int:
        worker = self.store.register(lease=LEASE.total_seconds())
        self.model.leases[worker] = self.store.now + LEASE
        return worker

    def _claim(self, worker: int, asks: list[Ask], room: int) -> list[Claim]:
        got = self._run("claim", jobs.claim(worker, asks, room, self.store.now))
        assert {one.id: one.number for one in got} == self.model.claim(worker, asks, room)
        for one in got:
            self.always.claimed(one)
            self.current[one.id] = one
        return got

    def _settle(self, ends: list[tuple[Claim, tuple[Outcome, Retry]]]) -> None:
        """As a worker does: decided from what the claim says, ends and rounds in one transaction."""
        settled = [
            Settled(claim, decide(outcome, policy, claim.attempt, claim.max_attempts, 0.0))
            for claim, (outcome, policy) in ends
        ]
        final = [one for one in settled if one.verdict.kind in ("succeed", "fail", "cancel")]
        again = [one for one in settled if one not in final]
        target, now, before = self.store.target, self.store.now, self.store.everything()
        with self.store.conn.transaction():
            untouched = self._run("settle", jobs.finish(target, final, now))
            untouched += self._run("settle", jobs.requeue(target, 0, again, now))
        expected = [
            one.claim.id
            for one in settled
            if not self.model.settle(one.claim.id, one.claim.number, one.verdict)
        ]
        assert sorted(untouched) == sorted(expected)
        if len(expected) == len(settled):
            assert self.store.everything() == before, "I4: a claim that was lost wrote"


def _facts(row: dict[str, Any]) -> tuple[Any, ...]:
    live = not row["state"].finished
    place = (row["worker_id"], row["cancelling"], row["seq"]) if live else ()
    return (row["state"], row["attempt"], row["claim"], row["run_at"], row["expires_at"], *place)


def _expected(job: Job) -> tuple[Any, ...]:
    place = () if job.state.finished else (job.worker, job.cancelling, job.seq)
    return (job.state, job.attempt, job.claim, job.run_at, job.expires_at, *place)
