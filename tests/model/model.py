"""The database in plain Python: every move of core/state.py on a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headway.core.flow import Advance
from headway.core.state import State
from headway.core.verdict import Verdict
from headway.store.documents import Ask
from headway.store.rows import Lane
from tests.model.controls import Controls, Name
from tests.model.job import Job, Line
from tests.store.store import Asked

LEASE = timedelta(seconds=30)
MAX_CRASHES = 3
DECLARED, DECLARED_ATTEMPTS = Lane("b", 5), 2
"""The declaration of every handler."""
_UNKEPT_FOR = timedelta(hours=1)
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
    survived: set[int] = field(default_factory=set)
    """Workers whose process outlived their lease."""
    died: set[int] = field(default_factory=set)
    """Workers whose process has ended."""
    consumers: set[int] = field(default_factory=set)
    """Workers that are consumers in SQL."""
    asked: set[str] = field(default_factory=set)
    """Jobs that somebody asked to stop."""
    keeps: dict[bool, bool] = field(default_factory=lambda: {True: True, False: True})
    """Whether jobs are kept that succeeded, and those that did not."""
    unkept: dict[str, datetime] = field(default_factory=dict)
    """Jobs that ended and were not kept, and when they ended."""
    visits: dict[tuple[str, str], Line] = field(default_factory=dict)
    """The line that a job stood in when it was last at a step that it left."""
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
        """Return the holders of the unique keys of jobs that were not made. All or none are made."""
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
        """The jobs claimed, each with how often it was: at most `room` of each queue. Limits that are
        not `locked` are shut."""
        taken: dict[str, int] = {}
        taken_of = Counter[str]()
        rooms = {name: self.controls.room(name, self.counted(name), self.now) for name in locked}
        ready = [job for job in self.all(State.READY) if self._may_run(job, locked)]
        for queue, ask in asks if self.alive(worker) else ():
            lane = [
                job
                for job in ready
                if job.lane == Lane(queue, ask.priority) and (job.seq or 0) > ask.cursor
            ]
            lane = [job for job in lane if self._is_meant(job.handler, ask)]
            most = (
                min(ask.most, rooms.get(("task", ask.handlers[0]), ask.most))
                if ask.alone
                else ask.most
            )
            of_queue = min(room, rooms.get(("queue", queue), room))
            for job in sorted(lane, key=lambda job: job.seq or 0)[:most]:
                if taken_of[queue] < of_queue:
                    taken_of[queue] += 1
                    taken[job.id] = job.claims + 1
        for job_id in taken:
            self._start(self.jobs[job_id], worker)
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
        return handler in ask.handlers and (ask.alone or handler not in self.controls.bound("task"))

    def _start(self, job: Job, worker: int) -> None:
        """The caller sets its claim number, which is partly random."""
        job.state, job.worker, job.touched = State.RUNNING, worker, False
        job.attempt, job.limited = job.attempt + 1, False
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

    def settle(self, job_id: str, claim: int, verdict: Verdict) -> str | None:
        """Why it did not take effect; none if it did."""
        job, asked = self.jobs[job_id], job_id in self.asked
        if job.state is not State.RUNNING or job.claim != claim:
            return "lost"
        if verdict.kind == "cancel" and not asked:
            return "unasked"
        if asked and verdict.kind not in _ENDS:
            job.touched = True
            return "asked"
        step, attempt = job.step, job.attempt
        if step or verdict.kind == "advance":
            self.visits[job_id, step] = job.line
        if verdict.kind in _ENDS:
            cancelled = asked and verdict.kind == "fail"
            self._end(job, State.CANCELLED if cancelled else _ENDS[verdict.kind])
        elif verdict.advance is not None:
            self._advance(job, verdict.advance)
        else:
            self._requeue(job, verdict)
        if verdict.error is not None:
            self.attempts.add((job_id, claim, attempt, verdict.error["type"]))
        elif verdict.kind == "advance" or (verdict.kind == "succeed" and step and job.kept):
            self.attempts.add((job_id, claim, attempt, _ROWS[verdict.kind]))
        return None

    def settle_locked(self, job_id: str, claim: int, verdict: Verdict) -> str:
        """The same while somebody has the row locked: nobody waits, and nothing changes."""
        job = self.jobs[job_id]
        if job.state is not State.RUNNING or job.claim != claim:
            return "lost"
        job.touched = True
        return "unasked" if verdict.kind == "cancel" and job_id not in self.asked else "locked"

    def _requeue(self, job: Job, verdict: Verdict) -> None:
        returned = verdict.kind == "release"
        seq = job.seq if returned else None
        job.attempt -= verdict.kind != "retry" or verdict.crashed
        if not returned:
            job.crashes = job.crashes + 1 if verdict.crashed else 0
        # Jobs under the limit of each key join its line again, except for a return without a token.
        stays = verdict.delay == 0 and (job.line.limit != 0 or (returned and job.rate is None))
        job.holds &= job.line.ordered or stays
        if returned and job.rate is not None and job.line.key:
            self.controls.key_return(job.line.key, job.handler, job.rate)
        job.go(self.now + timedelta(seconds=verdict.delay), self.now)
        job.seq = seq

    def _advance(self, job: Job, to: Advance) -> None:
        line = Line(to.key, to.key_limit, to.ordered)
        job.holds &= line == job.line and (to.delay == 0 or line.ordered) and line.limit != 0
        job.line, job.lane, job.step = line, Lane(to.queue, to.priority), to.step
        job.attempt, job.crashes, job.max_attempts = 0, 0, to.max_attempts
        job.go(self.now + timedelta(seconds=to.delay), self.now)

    # -- the fleet --------------------------------------------------------------------------------

    def rescue(self) -> dict[str, tuple[str, bool]]:
        """Return how each job of a lost worker ends, and whether its worker may have crashed.

        The longest back-off is assumed; the caller sets the row to it."""
        lost = [job for job in self.all(State.RUNNING) if not self.alive(job.worker)]
        return {job.id: self._rescue(job) for job in lost}

    def _rescue(self, job: Job) -> tuple[str, bool]:
        consumed = job.worker in self.consumers
        crashed = not consumed and job.worker not in self.survived
        self.attempts.add((job.id, job.claim, job.attempt, "WorkerLost"))
        over = consumed and job.attempt >= job.max_attempts
        if crashed:
            over = job.crashes + 1 >= MAX_CRASHES
        if over or job.id in self.asked:
            if job.step:
                self.visits[job.id, job.step] = job.line
            state = State.CANCELLED if job.id in self.asked else State.FAILED
            self._end(job, state)
            return state.value, crashed
        wait = timedelta(seconds=2**job.crashes if crashed else 0)
        job.attempt -= not consumed
        job.crashes += crashed
        job.holds &= job.line.ordered or (job.line.limit != 0 and not crashed)
        job.go(self.now + wait, self.now)
        return "r", crashed

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

    def clean_up(self) -> None:
        """Requests to stop jobs that have ended, and ids that were kept for a while."""
        self.controls.clean_up(self.now)
        self.asked -= {job_id for job_id in self.asked if self.jobs[job_id].state.finished}
        for job_id in [id_ for id_, at in self.unkept.items() if at <= self.now - _UNKEPT_FOR]:
            del self.unkept[job_id]

    # -- people -----------------------------------------------------------------------------------

    def cancel(self, job: Job, *, locked: bool = False) -> str | None:
        """`locked` says that somebody has its row locked."""
        if job.state is State.RUNNING or (job.waits and locked):
            self.asked.add(job.id)
            return "asked"
        if not job.waits:
            return None
        self._end(job, State.CANCELLED)
        return "cancelled"

    def waiting_asked(self) -> list[str]:
        """Those who wait although somebody asked them to stop."""
        return sorted(job_id for job_id in self.asked if self.jobs[job_id].waits)

    def purge(self, queue: str) -> int:
        gone = self.waiting_in(queue)
        for job in gone:
            self._end(job, State.CANCELLED, answers=False)
        return len(gone)

    def transfer(self, queue: str, to: str) -> int:
        """A ready job goes to the tail. The comparison gives it its new place."""
        moved = self.waiting_in(queue)
        for job in moved:
            job.lane = Lane(to, job.lane.priority)
        return len(moved)

    def waiting_in(self, queue: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.waits and job.lane.queue == queue]

    def _end(self, job: Job, state: State, *, answers: bool = True) -> None:
        """`answers` says that a request to stop goes with it; else it is forgotten later."""
        job.state, job.holds = state, False
        job.kept = self.keeps[state is State.SUCCEEDED]
        if not job.kept:
            self.unkept[job.id] = self.now
        if answers and state in (State.FAILED, State.CANCELLED):
            self.asked.discard(job.id)
        self.ends[job.lane.queue, state] += 1

    def revive(self, job: Job, from_step: str | None = None) -> bool:
        if job.kept and job.state in (State.FAILED, State.CANCELLED, State.EXPIRED):
            if from_step is not None and from_step != job.step:
                line = self.visits.get((job.id, from_step))
                if line is None:
                    return False
                job.step, job.line = from_step, line
                job.lane, job.max_attempts = DECLARED, DECLARED_ATTEMPTS
            job.attempt, job.crashes, job.expires_at = 0, 0, None
            if self._holder(job) is not None:
                job.unique = None
            self.asked.discard(job.id)
        elif job.state is not State.SCHEDULED or from_step is not None:
            return False
        job.go(self.now, self.now)
        return True


def _names(job: Job) -> tuple[Name, Name]:
    return ("queue", job.lane.queue), ("task", job.handler)
