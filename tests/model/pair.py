"""PostgreSQL and the model side by side: each command is given to both, and both must agree."""

from __future__ import annotations

from collections.abc import Callable, Collection
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
from headway.store import controls, inspect, jobs
from headway.store.controls import LockedLimit
from headway.store.documents import NewJob, Settled
from headway.store.faults import KEY_TAKEN
from headway.store.rows import Claim, Lane
from headway.store.statement import R, Statement
from tests.model import facts
from tests.model.bounds import Bounds
from tests.model.invariants import Invariants, Snapshot
from tests.model.job import HANDLERS, Job, Line
from tests.model.model import LEASE, Model, Taken
from tests.store.store import Asked, Store, new_job, shares

Heard = Callable[[], list[str]]
"""What was notified since this was last asked."""
End = tuple[Outcome, Retry]
"""What an attempt came to, and the policy that it is judged by."""

_PLACES = sql.SQL("select id::text, seq from {}")
_PLACE = sql.SQL("update {} set seq = %s where id = %s")
_MOVES = ("finish", "advance", "requeue")
_MOVE = {"succeed": "finish", "fail": "finish", "cancel": "finish", "advance": "advance"}


class Pair:
    def __init__(self, store: Store, heard: Heard) -> None:
        store.clear()
        for handler in HANDLERS:
            store.declare(handler)  # limits of keys are known, and their lines wait for no worker
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

    def register(self) -> int:
        worker = self.store.register(lease=LEASE.total_seconds())
        self.model.leases[worker] = self.store.now + LEASE
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
        assert {one.id: one.number for one in got} == self.model.claim(worker, asks, room, ours)
        got.sort(key=lambda one: self.model.jobs[one.id].seq or 0)
        for one in got:
            self.always.claimed(one)
            self.bounds.claimed(one, self.store.now)
            self.current[one.id] = one
        self.issued += got
        return got

    def _lock(self, asks: list[Asked]) -> list[LockedLimit]:
        names = {("queue", queue) for queue, _ in asks}
        names |= {("task", ask.t[0]) for _, ask in asks if ask.o}
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
        handed on in it (where the handler's own transaction settles, it is not)."""
        settled = [
            Settled(claim, decide(outcome, policy, claim.attempt, claim.max_attempts, 0.0))
            for claim, (outcome, policy) in ends
        ]
        before, admitted = self.store.everything(), 0
        with self.store.conn.transaction():
            untouched = self._move(settled)
            expected = [
                one.claim.id
                for one in settled
                if not self.model.settle(one.claim.id, one.claim.number, one.verdict)
            ]
            if hand_on:
                # Who has just joined a line stands in it by a place that only the database knows yet.
                self._adopt_places(self.store.conn)
                admitted = self._admit(_keys(settled))
                assert admitted == self.model.admit(_keys(settled))
        assert sorted(untouched) == sorted(expected)
        for one in settled:
            if one.verdict.advance is not None and one.claim.id not in expected:
                self.always.moved(one.claim, one.verdict.advance.input)
        if len(expected) == len(settled) and not admitted:
            # Whoever admits adds up the starts that others have noted, whether or not it lets anybody in.
            after = self.store.everything() | {
                table: before[table] for table in ("start", "bucket")
            }
            assert after == before, "I4: a claim that was lost wrote"

    def _move(self, settled: list[Settled]) -> list[str]:
        target, now = self.store.target, self.store.now
        by_move = {
            move: [one for one in settled if _MOVE.get(one.verdict.kind, "requeue") == move]
            for move in _MOVES
        }
        return [
            *self.run("settle", jobs.finish(target, by_move["finish"], now)),
            *self.run("settle", jobs.advance(target, by_move["advance"], now)),
            *self.run("settle", jobs.requeue(target, 0, by_move["requeue"], now)),
        ]

    def admit(self, keys: Collection[str]) -> None:
        with self.store.conn.transaction():
            self.store.run(jobs.lock_keys(keys))
            gave_way = self.store.run(jobs.give_way(keys, self.store.now))
            admitted = self._admit(keys)
        assert gave_way == self.model.give_way(keys)
        assert admitted == self.model.admit(keys)

    def admit_all(self) -> None:
        """What a look at every line comes to."""
        lines = self.run("lines", jobs.lines("", 99, self.store.now))
        found = [line.key for line in lines if line.room]
        self.admit(found)
        self._command = "admit"

    def _admit(self, keys: Collection[str]) -> int:
        self.store.run(jobs.lock_keys(keys))
        return self.store.run(jobs.admit(self.store.target, keys, self.store.now)).count

    def edit(self, job: Job, value: int) -> None:
        changes = job.state not in (State.RUNNING, State.SUCCEEDED)
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
        rows = seen.live | seen.archived
        assert {job_id: facts.of_row(row) for job_id, row in rows.items()} == {
            job.id: facts.of_job(job) for job in self.model.jobs.values()
        }
        attempts = [
            (str(row["job_id"]), row["claim"], row["attempt"], facts.came_to(row))
            for row in seen.attempts
        ]
        assert sorted(attempts) == sorted(self.model.attempts)
        said = self.model.controls
        assert {name: facts.of_control_row(row) for name, row in seen.controls.items()} == {
            name: facts.of_control(control) for name, control in said.rows.items()
        }
        assert {key: facts.moment(at) for key, at in seen.spent.items() if at > now} == {
            key: facts.moment(at) for key, at in said.spent(now).items()
        }
        assert self._measured() == facts.of_queues(self.model)

    def _measured(self) -> dict[str, tuple[Any, ...]]:
        """What is told of each queue: its live jobs, since when the oldest is ready, and the ends."""
        measured = self.store.run(inspect.metrics(None, self.store.now))
        return {
            queue.name: (
                (queue.ready, queue.scheduled, queue.blocked, queue.running),
                (queue.oldest_ready_age, queue.newest_ready_age),
                (queue.succeeded, queue.failed, queue.cancelled, queue.expired),
            )
            for queue in measured
        }

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
