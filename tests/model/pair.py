"""PostgreSQL and the model side by side: each command is given to both, and both must agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import tuple_row

from headway.core import codec
from headway.core.retry import Retry
from headway.core.state import State
from headway.core.verdict import Outcome, decide
from headway.store.documents import NewJob, Settled
from headway.store.faults import KEY_TAKEN
from headway.store.rows import Claim, Lane
from headway.store.statement import R, Statement
from headway.store.statements import controls, fleet, jobs
from headway.store.statements.controls import LockedLimit
from tests.model import admission, facts
from tests.model.bounds import Bounds
from tests.model.invariants import Invariants, Snapshot
from tests.model.job import HANDLERS, Job, Line
from tests.model.model import DECLARED, DECLARED_ATTEMPTS, LEASE, Model, Taken
from tests.store.store import Asked, Store, new_job, shares

Heard = Callable[[], list[str]]
"""The notifications since this was last called."""
End = tuple[Outcome, Retry]
"""The outcome of an attempt, and the policy that decides about it."""

_PLACES = sql.SQL("select id::text, seq from {}")
_PLACE = sql.SQL("update {} set seq = %s where id = %s")
_MOVES = ("finish", "advance", "requeue")
_MOVE = {"succeed": "finish", "fail": "finish", "cancel": "finish", "advance": "advance"}


class Pair:
    def __init__(self, store: Store, heard: Heard) -> None:
        store.clear()
        for handler in HANDLERS:  # limits of keys are known, and their lines wait for no worker
            store.declare(handler, **DECLARED._asdict(), max_attempts=DECLARED_ATTEMPTS)
        self.store = store
        self.model = Model(store.now)
        self.always, self.bounds = Invariants(), Bounds()
        self._heard = heard
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

    def register(self, *, consumes: bool = False, was: int | None = None) -> int:
        """A worker or a consumer in SQL. `was` is the one that the same process was before."""
        version, now = "sql" if consumes else "0", self.store.now
        lease, tasks = LEASE.total_seconds(), list(HANDLERS)
        worker = self.run(
            "register",
            fleet.register("host:1", version, 10, ["a", "b"], tasks, lease, now, was=was),
        )
        self.model.leases[worker] = now + LEASE
        if consumes:
            self.model.consumers.add(worker)
        if was is not None:
            self.model.survived.add(was)
        return worker

    # -- making -----------------------------------------------------------------------------------

    def enqueue(
        self,
        lane: Lane,
        delay: float | None,
        ttl: float | None,
        most: int,
        line: Line,
        uniques: list[str | None],
        on_taken: str = "skip",
        **scope: Any,
    ) -> list[str]:
        """One job for each of the unique keys (or none), in one call; those that were made."""
        now = self.store.now
        made = [
            new_job(
                queue=lane.queue, priority=lane.priority, delay=delay, ttl=ttl, max_attempts=most,
                key=line.key, key_limit=line.limit, ordered=line.ordered,
                unique_key=unique, on_taken=on_taken, **scope,
            )
            for unique in uniques
        ]  # fmt: skip
        mirrored = [
            Job(
                job.id,
                lane,
                most,
                run_at=now + timedelta(seconds=delay or 0),
                expires_at=None if ttl is None else now + timedelta(seconds=ttl),
                line=line,
                unique=job.unique_key,
                **scope,
            )
            for job in made
        ]
        statement = jobs.enqueue(self.store.target, made, now)
        try:
            taken = self.model.enqueue(mirrored, on_taken)
        except Taken:
            with pytest.raises(psycopg.Error) as refused:
                self.run("enqueue", statement)
            assert refused.value.sqlstate == KEY_TAKEN
            return []
        assert self.run("enqueue", statement) == taken
        return self._made(made, taken, replaced=on_taken == "replace")

    def _made(self, asked: list[NewJob], taken: dict[str, str], replaced: bool) -> list[str]:
        for job in asked:
            if replaced or job.id not in taken:
                self.always.inputs[taken.get(job.id, job.id)] = codec.decode(bytes(job.input))
        made = [job.id for job in asked if job.id not in taken]
        if not replaced:
            places = [(self.store.live(job_id) or {})["seq"] for job_id in made]
            assert places == sorted(places), "they are not in the order of the call"
        return made

    # -- running ----------------------------------------------------------------------------------

    def claim(
        self, worker: int, asks: list[Asked], room: int, *, locks: bool = True
    ) -> list[Claim]:
        """As a worker does: in one transaction that has taken the limits which it may meet, or (one
        that has not heard of them) has not."""
        with self.store.conn.transaction():
            locked = self._lock(asks) if locks else []
            got = self.run("claim", jobs.claim(worker, shares(asks, room), self.store.now))
        ours = {(limit.kind, limit.name) for limit in locked}
        counted = {one.id: one.number >> 32 for one in got}
        assert counted == self.model.claim(worker, asks, room, ours)
        got.sort(key=lambda one: self.model.jobs[one.id].seq or 0)
        for one in got:
            self.always.claimed(one)
            self.model.jobs[one.id].claim = one.number
            assert one.crashes == self.model.jobs[one.id].crashes
            self.bounds.claimed(one, self.store.now)
            self.current[one.id] = one
        self.issued += got
        return got

    def _lock(self, asks: list[Asked]) -> list[LockedLimit]:
        names = {("queue", queue) for queue, _ in asks}
        names |= {("task", ask.handlers[0]) for _, ask in asks if ask.alone}
        queues = [name for kind, name in names if kind == "queue"]
        tasks = [name for kind, name in names if kind == "task"]
        locked = self.store.run(controls.lock(queues, tasks, self.store.now))
        said = self.model.controls
        expected = [
            (name, round(said.rows[name].debt(self.store.now), 3))
            for name in sorted(names)
            if said.numbers(name).bound
        ]
        found = [
            ((limit.kind, limit.name), round(limit.spent_for, 3) if limit.rate else 0.0)
            for limit in locked
        ]
        assert sorted(found) == expected
        return locked

    def zombies(self) -> list[Claim]:
        """Claims whose job runs again, under another one."""
        running = {job.id: job.claim for job in self.model.all(State.RUNNING)}
        return [one for one in self.issued if running.get(one.id, one.number) != one.number]

    def settle(self, ends: list[tuple[Claim, End]], *, hand_on: bool = True) -> None:
        """As a worker does: decided from what the claim says, all in one transaction, and room is
        admitted in it (where the handler's own transaction settles, it is not)."""
        settled = [self._decided(claim, end) for claim, end in ends]
        before, admitted = self.store.everything(), 0
        with self.store.conn.transaction():
            answers = self._settle(settled)
            expected = {
                one.claim.id: why
                for one in settled
                if (why := self.model.settle(one.claim.id, one.claim.number, one.verdict))
            }
            if hand_on:
                # Only the database knows the place of a job that has just joined a line.
                self._adopt_places(self.store.conn)
                admitted = self._admit(_keys(settled))
                assert admitted == admission.admit(self.model, _keys(settled))
        assert answers == expected
        for one in settled:
            if one.claim.id not in expected:
                self._left(one)
        if len(expected) == len(settled) and not admitted:
            # An admission adds up the starts that others noted, also if it admits no job.
            after = self.store.everything() | {
                table: before[table] for table in ("start", "bucket")
            }
            assert after == before, "I4: a claim that was lost wrote"

    def settle_locked(self, claim: Claim, end: End) -> None:
        """While somebody has the row locked, and however careful it is: it neither waits nor writes."""
        one, before = self._decided(claim, end), self.store.everything()
        expected = self.model.settle_locked(claim.id, claim.number, one.verdict)
        with self.locked(claim.id):
            for careful in (False, True):
                assert self._move([one], careful=careful) == {claim.id: expected}
        assert self.store.everything() == before

    @contextmanager
    def locked(self, job_id: str) -> Iterator[None]:
        """Somebody has a job's row locked."""
        with self.store.eyes.transaction():
            self.store.eyes.execute("select from job where id = %s for update", (job_id,))
            yield

    def _decided(self, claim: Claim, end: End) -> Settled:
        outcome, policy = end
        most = claim.max_attempts
        return Settled(claim, decide(outcome, policy, claim.attempt, most, 0.0, claim.crashes))

    def _left(self, one: Settled) -> None:
        if one.verdict.advance is not None:
            self.always.moved(one.claim, one.verdict.advance.input)
        elif one.claim.step and one.verdict.kind in ("fail", "cancel"):
            self.always.left(one.claim.id, one.claim.step)

    def _settle(self, settled: list[Settled]) -> dict[str, str]:
        """As the settler: what was locked since it was claimed is sent again, with care."""
        answers = self._move(settled)
        locked = {job_id for job_id, why in answers.items() if why == "locked"}
        assert all(self.model.jobs[job_id].touched for job_id in locked), "nobody locked it"
        again = self._move([one for one in settled if one.claim.id in locked], careful=True)
        return {job_id: why for job_id, why in answers.items() if job_id not in locked} | again

    def _move(self, settled: list[Settled], *, careful: bool = False) -> dict[str, str]:
        target, now = self.store.target, self.store.now
        by_move = {
            move: [one for one in settled if _MOVE.get(one.verdict.kind, "requeue") == move]
            for move in _MOVES
        }
        answers = dict[str, str]()
        answers |= self.run("settle", jobs.finish(target, by_move["finish"], now, careful=careful))
        answers |= self.run("settle", jobs.advance(target, by_move["advance"], now))
        answers |= self.run("settle", jobs.requeue(target, 0, by_move["requeue"], now))
        return answers

    def revive(self, job: Job, from_step: str | None) -> None:
        ended, step = job.state.finished, job.step
        revive = jobs.revive(self.store.target, UUID(job.id), from_step, self.store.now)
        revived = self.run("retry", revive)
        assert revived == self.model.revive(job, from_step)
        if ended and revived:
            self.always.revived(job.id, from_step if job.step != step else None)

    def admit(self, keys: Collection[str]) -> None:
        with self.store.conn.transaction():
            self.store.run(jobs.lock_keys(keys))
            given_up = self.store.run(jobs.unadmit(keys, self.store.now))
            admitted = self._admit(keys)
        assert given_up == admission.unadmit(self.model, keys)
        assert admitted == admission.admit(self.model, keys)

    def admit_all(self) -> None:
        """Return what a scan of every line finds."""
        lines = self.run("lines", jobs.lines("", 99, self.store.now))
        found = [line.key for line in lines if line.room]
        self.admit(found)
        self._command = "admit"

    def _admit(self, keys: Collection[str]) -> int:
        self.store.run(jobs.lock_keys(keys))
        return self.store.run(jobs.admit(self.store.target, keys, self.store.now)).count

    def clean_up(self) -> None:
        self.run("clean_up", fleet.clean_up(self.store.now))
        before = set(self.model.unkept)
        self.model.clean_up()
        self.always.forgotten |= before - self.model.unkept.keys()

    def edit(self, job: Job, value: int) -> None:
        changes = job.kept and job.state not in (State.RUNNING, State.SUCCEEDED)
        changed = self.run("edit", jobs.edit(UUID(job.id), job.step, codec.encode({"n": value})))
        assert changed == changes
        if changes:
            self.always.inputs[job.id] = {"n": value}

    # -- comparing --------------------------------------------------------------------------------

    def agree(self) -> None:
        """I1 to I9 hold in the database, and it says what the model says."""
        self._adopt_places(self.store.eyes)
        seen, now = Snapshot.take(self.store), self.store.now
        self.always.check(seen, now, self._command)
        self.bounds.check(seen, now, self._command, self._heard())
        facts.compare(seen, self.model, now)
        assert facts.measured(self.store) == facts.of_queues(self.model)

    def adopt_order(self, ready: list[Job]) -> None:
        """Those who were put at the tail of another lane are there in the order that they had."""
        places = {job.id: self.store.row(job.id)["seq"] for job in ready}
        for job in sorted(ready, key=lambda job: job.seq or 0):
            assert places[job.id] > self._newest, "they are not at the tail, or not in order"
            job.seq = self._newest = places[job.id]

    def _adopt_places(self, conn: psycopg.Connection[Any]) -> None:
        """Places newly drawn must be behind all that were drawn before.

        Those that one statement drew are in no promised order (but for those of one call); they are put
        into one here, so that an example runs the same again.
        """
        drawn = [job for job in self.model.jobs.values() if job.seq is None]
        drawn = [job for job in drawn if not job.state.finished]
        if not drawn:
            return
        table = sql.SQL("{}.job").format(sql.Identifier(self.store.schema))
        with conn.cursor(row_factory=tuple_row) as cursor:
            places = dict(cursor.execute(_PLACES.format(table)).fetchall())
            new = sorted(places[job.id] for job in drawn)
            assert len(set(new)) == len(new), "two have the same place"
            assert all(place > self._newest for place in new), "a new place is at the tail"
            for job, place in zip(drawn, new, strict=True):
                job.seq = self._newest = place
                if places[job.id] != place:
                    cursor.execute(_PLACE.format(table), (place, job.id))


def _keys(settled: list[Settled]) -> set[str]:
    return set[str]().union(*(one.touched_keys for one in settled))
