"""PostgreSQL and the model side by side: each command is given to both, and both must agree."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headway.core.retry import Retry
from headway.core.state import State
from headway.core.verdict import Outcome, decide
from headway.store import jobs
from headway.store.jobs import Ask, Settled
from headway.store.rows import Claim, Lane
from headway.store.statement import R, Statement
from tests.model.invariants import Invariants, Snapshot
from tests.model.model import LEASE, Job, Model
from tests.store.store import Store, new_job

End = tuple[Outcome, Retry]
"""What an attempt came to, and the policy that it is judged by."""


class Pair:
    def __init__(self, store: Store) -> None:
        store.clear()
        self.store = store
        self.model = Model(store.now)
        self.always = Invariants()
        self.current: dict[str, Claim] = {}
        """The newest claim of each job that had one."""
        self.issued: list[Claim] = []
        self._command = ""
        self._newest = 0

    def run(self, command: str, statement: Statement[R]) -> R:
        self._command = command
        return self.store.run(statement)

    def advance(self, seconds: float) -> None:
        self._command = "advance"
        self.store.advance(seconds)
        self.model.now = self.store.now

    def register(self) -> int:
        worker = self.store.register(lease=LEASE.total_seconds())
        self.model.leases[worker] = self.store.now + LEASE
        return worker

    def enqueue(
        self, lane: Lane, delay: float | None, ttl: float | None, most: int, many: int
    ) -> list[str]:
        now, fields = self.store.now, {"delay": delay, "ttl": ttl, "max_attempts": most}
        made = [new_job(queue=lane.queue, priority=lane.priority, **fields) for _ in range(many)]
        assert self.run("enqueue", jobs.enqueue(self.store.target, made, now)) == many
        for job in made:
            self.always.inputs[job.id] = (self.store.live(job.id) or {})["input"]
            self.model.jobs[job.id] = Job(
                job.id,
                lane,
                most,
                run_at=now + timedelta(seconds=delay or 0),
                expires_at=None if ttl is None else now + timedelta(seconds=ttl),
                state=State.SCHEDULED if delay else State.READY,
            )
        return [job.id for job in made]

    def claim(self, worker: int, asks: list[Ask], room: int) -> list[Claim]:
        got = self.run("claim", jobs.claim(worker, asks, room, self.store.now))
        assert {one.id: one.number for one in got} == self.model.claim(worker, asks, room)
        got.sort(key=lambda one: self.model.jobs[one.id].seq or 0)
        for one in got:
            self.always.claimed(one)
            self.current[one.id] = one
        self.issued += got
        return got

    def zombies(self) -> list[Claim]:
        """Claims whose job runs again, under another one."""
        running = {job.id: job.claim for job in self.model.all(State.RUNNING)}
        return [one for one in self.issued if running.get(one.id, one.number) != one.number]

    def settle(self, ends: list[tuple[Claim, End]]) -> None:
        """As a worker does: decided from what the claim says, ends and rounds in one transaction."""
        settled = [
            Settled(claim, decide(outcome, policy, claim.attempt, claim.max_attempts, 0.0))
            for claim, (outcome, policy) in ends
        ]
        final = [one for one in settled if one.verdict.kind in ("succeed", "fail", "cancel")]
        again = [one for one in settled if one not in final]
        target, now, before = self.store.target, self.store.now, self.store.everything()
        with self.store.conn.transaction():
            untouched = self.run("settle", jobs.finish(target, final, now))
            untouched += self.run("settle", jobs.requeue(target, 0, again, now))
        expected = [
            one.claim.id
            for one in settled
            if not self.model.settle(one.claim.id, one.claim.number, one.verdict)
        ]
        assert sorted(untouched) == sorted(expected)
        if len(expected) == len(settled):
            assert self.store.everything() == before, "I4: a claim that was lost wrote"

    def agree(self) -> None:
        """I1 to I8 hold in the database, and it says what the model says."""
        seen = Snapshot.take(self.store)
        self.always.check(seen, self.store.now, self._command)
        self._adopt_places(seen)
        facts = {job_id: _facts(row) for job_id, row in (seen.live | seen.archived).items()}
        assert facts == {job.id: _expected(job) for job in self.model.jobs.values()}
        attempts = [
            (str(row["job_id"]), row["claim"], row["attempt"], row["error"]["type"])
            for row in seen.attempts
        ]
        assert sorted(attempts) == sorted(self.model.attempts)

    def _adopt_places(self, seen: Snapshot) -> None:
        """Places newly drawn must be behind all that were drawn before.

        Those that one statement drew are in no promised order; they are put into one here, so that
        an example runs the same again.
        """
        drawn = [job for job in self.model.jobs.values() if job.seq is None]
        drawn = [job for job in drawn if not job.state.finished]
        places = sorted(seen.live[job.id]["seq"] for job in drawn)
        assert len(set(places)) == len(places), "two have the same place"
        assert all(place > self._newest for place in places), "a new place is at the tail"
        for job, place in zip(drawn, places, strict=True):
            job.seq = self._newest = place
            if seen.live[job.id]["seq"] != place:
                self.store.rows("update job set seq = %s where id = %s returning 1", place, job.id)
                seen.live[job.id]["seq"] = place


def _facts(row: dict[str, Any]) -> tuple[Any, ...]:
    live = not row["state"].finished
    place = (row["worker_id"], row["cancelling"], row["seq"]) if live else ()
    return (row["state"], row["attempt"], row["claim"], row["run_at"], row["expires_at"], *place)


def _expected(job: Job) -> tuple[Any, ...]:
    place = () if job.state.finished else (job.worker, job.cancelling, job.seq)
    return (job.state, job.attempt, job.claim, job.run_at, job.expires_at, *place)
