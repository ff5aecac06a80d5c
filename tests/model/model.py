"""What the database should do, in plain Python: every move of core/state.py on a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headway.core.flow import Advance
from headway.core.state import State
from headway.core.verdict import Verdict
from headway.store.documents import Ask
from headway.store.rows import Lane
from tests.model.controls import TURN, Controls, Name
from tests.model.job import Job, Line
from tests.store.store import Asked

LEASE = timedelta(seconds=30)
_ENDS = {"succeed": State.SUCCEEDED, "fail": State.FAILED, "cancel": State.CANCELLED}
_ROWS = {"succeed": "d", "advance": "n"}


class Taken(Exception):
    """A unique key is taken, and the caller wants to be told."""


@dataclass
class Model:
    now: datetime
    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: set[tuple[str, int, int, str]] = field(default_factory=set)
    """Job, claim, attempt and kind of error (or outcome) of every attempt that has a row."""
    leases: dict[int, datetime] = field(default_factory=dict)
    controls: Controls = field(default_factory=Controls)
    ends: Counter[tuple[str, State]] = field(default_factory=Counter[tuple[str, State]])
    """How many jobs of each queue came to which end, each time that they did."""
    periods: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    """Of unique keys that are taken for a while: by whom, and until when."""

    def alive(self, worker: int | None) -> bool:
        return worker is not None and self.leases[worker] > self.now

    def expired(self, job: Job) -> bool:
        return job.expires_at is not None and job.expires_at <= self.now

    def all(self, *states: State) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in states]

    # -- making -----------------------------------------------------------------------------------

    def enqueue(self, new: Sequence[Job], on_taken: str) -> dict[str, str]:
        """Who has the unique keys of those that were not made; all or none are made."""
        taken: dict[str, str] = {}
        holders = [self._holder(job) for job in new]
        same_key = len({job.unique for job in new}) < len(new) and new[0].unique is not None
        if on_taken == "reject" and (any(holders) or same_key):
            raise Taken
        if on_taken == "replace" and any(holder and holder.claim for holder in holders):
            raise Taken
        for job in sorted(new, key=lambda job: job.unique or ""):
            holder = self._holder(job)
            if holder is None:
                job.go(job.run_at, self.now)
                self.jobs[job.id] = job
                if job.period is not None and job.unique is not None:
                    until = self.now + timedelta(seconds=job.period)
                    self.periods[job.unique] = (job.id, until)
                    job.unique = None
                continue
            if on_taken == "replace":
                self._replace(holder, job)
            taken[job.id] = holder.id
        return taken

    def _holder(self, new: Job) -> Job | None:
        if new.period is not None and new.unique is not None:
            job_id, until = self.periods.get(new.unique, ("", self.now))
            return self.jobs[job_id] if until > self.now else None
        having = (job for job in self.jobs.values() if job.has_its_key)
        return next((job for job in having if job.unique == new.unique), None)

    def _replace(self, old: Job, new: Job) -> None:
        stays = old.line == new.line and new.run_at <= self.now
        lane, seq = old.lane, old.seq if old.state is not State.SCHEDULED else None
        old.lane, old.line, old.max_attempts = new.lane, new.line, new.max_attempts
        old.expires_at, old.step = new.expires_at, ""
        old.holds &= stays
        old.go(new.run_at, self.now)
        if stays and lane == new.lane:
            old.seq = seq

    # -- running ----------------------------------------------------------------------------------

    def claim(
        self, worker: int, asks: Sequence[Asked], room: int, locked: Collection[Name] = ()
    ) -> dict[str, int]:
        """The jobs claimed, each with its claim number: at most `room` of each queue. Limits that are
        not `locked` are shut."""
        taken: dict[str, int] = {}
        taken_of = Counter[str]()
        rooms = {name: self.controls.room(name, self.counted(name), self.now) for name in locked}
        ready = [job for job in self.all(State.READY) if self._may_run(job, locked)]
        for queue, ask in asks if self.alive(worker) else ():
            lane = [
                job for job in ready if job.lane == Lane(queue, ask.p) and (job.seq or 0) > ask.s
            ]
            lane = [job for job in lane if self._is_meant(job.handler, ask)]
            most = min(ask.n, rooms.get(("task", ask.t[0]), ask.n)) if ask.o else ask.n
            of_queue = min(room, rooms.get(("queue", queue), room))
            for job in sorted(lane, key=lambda job: job.seq or 0)[:most]:
                if taken_of[queue] < of_queue:
                    taken_of[queue] += 1
                    taken[job.id] = job.claim + 1
        for job_id, number in taken.items():
            self._start(self.jobs[job_id], number, worker)
        return taken

    def _may_run(self, job: Job, locked: Collection[Name]) -> bool:
        names = _names(job)
        return (
            not self.expired(job)
            and not self.controls.paused(names[0], self.now)
            and not self.controls.handler_paused(job.handler, self.now)
            and not self.controls.paused(("key", job.line.key or ""), self.now)
            and all(name in locked or not self.controls.numbers(name).bound for name in names)
        )

    def _is_meant(self, handler: str, ask: Ask) -> bool:
        """A task with a limit is claimed only on a line of its own."""
        return handler in ask.t and (ask.o or handler not in self.controls.bound("task"))

    def _start(self, job: Job, number: int, worker: int) -> None:
        job.state, job.worker = State.RUNNING, worker
        job.claim, job.attempt, job.limited = number, job.attempt + 1, False
        self.controls.spend(("queue", job.lane.queue), self.now)
        self.controls.spend(("task", job.handler), self.now)
        job.rate = None
        if job.line.limit == 0 and job.line.key:
            job.rate = self.controls.key_start(job.line.key, job.handler, self.now)
        self.count_running()

    def counted(self, name: Name) -> int:
        """How many run under a limit of a queue or a task."""
        return sum(name in _names(job) for job in self.all(State.RUNNING) if job.limited)

    def count_running(self) -> None:
        """Whatever runs under a limit counts, whichever of them came first."""
        for job in self.all(State.RUNNING):
            numbers = (self.controls.numbers(name) for name in _names(job))
            job.limited |= any(said.concurrency is not None for said in numbers)

    def settle(self, job_id: str, claim: int, verdict: Verdict) -> bool:
        """Whether it took effect."""
        job = self.jobs[job_id]
        if job.state is not State.RUNNING or job.claim != claim:
            return False
        step, attempt = job.step, job.attempt
        if verdict.kind in _ENDS:
            self._end(job, _ENDS[verdict.kind])
        elif job.cancelling:
            return False
        elif verdict.advance is not None:
            self._advance(job, verdict.advance)
        else:
            returned = verdict.kind == "release"
            seq = job.seq if returned else None
            job.attempt = attempt = job.attempt - (verdict.kind != "retry")
            # What is under the limit of each key joins its line again; not a return without a token.
            stays = verdict.delay == 0 and (job.line.limit != 0 or (returned and job.rate is None))
            job.holds &= job.line.ordered or stays
            if returned and job.rate is not None and job.line.key:
                self.controls.key_return(job.line.key, job.handler, job.rate)
            job.go(self.now + timedelta(seconds=verdict.delay), self.now)
            job.seq = seq
        if verdict.error is not None:
            self.attempts.add((job_id, claim, attempt, verdict.error["type"]))
        elif verdict.kind == "advance" or (verdict.kind == "succeed" and step):
            self.attempts.add((job_id, claim, attempt, _ROWS[verdict.kind]))
        return True

    def _advance(self, job: Job, to: Advance) -> None:
        line = Line(to.key, to.key_limit, to.ordered)
        job.holds &= line == job.line and (to.delay == 0 or line.ordered) and line.limit != 0
        job.line, job.lane, job.step = line, Lane(to.queue, to.priority), to.step
        job.attempt, job.max_attempts = 0, to.max_attempts
        job.go(self.now + timedelta(seconds=to.delay), self.now)

    def give_way(self, keys: Iterable[str]) -> int:
        """Who is ready, and cannot run, gives its room to those of its key who can."""
        back = [
            job
            for job in self.all(State.READY)
            if job.line.key in keys and not job.line.ordered and self._shut(job)
            if not self.controls.paused(("key", job.line.key), self.now)
            if self._able(job.line.key)
        ]
        for job in back:
            job.state, job.holds = State.BLOCKED, False
        return len(back)

    def _shut(self, job: Job) -> bool:
        return self.controls.shut(job.lane.queue, job.handler, self.now)

    def _able(self, key: str) -> list[Job]:
        """Who waits for room under a key and could run, in order; an ordered line waits as it stands."""
        line = [job for job in self.all(State.BLOCKED) if job.line.key == key]
        able = [job for job in line if job.line.ordered or not self._shut(job)]
        return sorted(able, key=lambda job: job.place)

    def admit(self, keys: Iterable[str]) -> int:
        return sum(self._admit(key) for key in set(keys))

    def _admit(self, key: str) -> int:
        under = [job for job in self.jobs.values() if job.line.key == key]
        held = sum(job.holds for job in under)
        blocked = self._able(key)
        if not blocked or self.controls.paused(("key", key), self.now):
            return 0
        limit, handler = blocked[0].line.limit or 0, blocked[0].handler
        ready = sum(job.state is State.READY for job in under)
        room = min(limit - held, TURN - ready)
        if limit == 0:
            room = self.controls.key_room(key, handler, held, ready, self.now)
        let_in = blocked[: max(0, room)]
        for job in let_in:
            job.state, job.holds, job.seq = State.READY, True, None
        return len(let_in)

    # -- the fleet --------------------------------------------------------------------------------

    def rescue(self) -> tuple[int, int]:
        """How many run again, how many ended."""
        lost = [job for job in self.all(State.RUNNING) if not self.alive(job.worker)]
        for job in lost:
            self.attempts.add((job.id, job.claim, job.attempt, "WorkerLost"))
            if job.cancelling or job.attempt >= job.max_attempts:
                self._end(job, State.CANCELLED if job.cancelling else State.FAILED)
            else:
                job.holds &= job.line.limit != 0
                job.go(self.now, self.now)
        ended = sum(job.state.finished for job in lost)
        return len(lost) - ended, ended

    def promote(self) -> int:
        due = [job for job in self.all(State.SCHEDULED) if job.run_at <= self.now]
        for job in due:
            job.go(job.run_at, self.now)
        return len(due)

    def expire(self) -> int:
        old = [job for job in self.jobs.values() if job.waits and self.expired(job)]
        for job in old:
            self._end(job, State.EXPIRED)
        return len(old)

    # -- people -----------------------------------------------------------------------------------

    def cancel(self, job: Job) -> str | None:
        if job.state is State.RUNNING:
            job.cancelling = True
            return "asked"
        if not job.waits:
            return None
        self._end(job, State.CANCELLED)
        return "cancelled"

    def purge(self, queue: str) -> int:
        gone = self.parked(queue)
        for job in gone:
            self._end(job, State.CANCELLED)
        return len(gone)

    def transfer(self, queue: str, to: str) -> int:
        """What is ready goes to the tail; whoever compares gives it its new place."""
        moved = self.parked(queue)
        for job in moved:
            job.lane = Lane(to, job.lane.priority)
        return len(moved)

    def parked(self, queue: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.waits and job.lane.queue == queue]

    def _end(self, job: Job, state: State) -> None:
        job.state, job.cancelling, job.holds = state, False, False
        self.ends[job.lane.queue, state] += 1

    def revive(self, job: Job) -> bool:
        if job.state in (State.FAILED, State.CANCELLED, State.EXPIRED):
            job.attempt, job.expires_at = 0, None
            if self._holder(job) is not None:
                job.unique = None
        elif job.state is not State.SCHEDULED:
            return False
        job.go(self.now, self.now)
        return True


def _names(job: Job) -> tuple[Name, Name]:
    return ("queue", job.lane.queue), ("task", job.handler)
