"""What the database should do, in plain Python: every move of core/state.py on a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headway.core.flow import Advance
from headway.core.state import State
from headway.core.verdict import Verdict
from headway.store.documents import Ask
from headway.store.rows import Lane

LEASE = timedelta(seconds=30)
_ENDS = {"succeed": State.SUCCEEDED, "fail": State.FAILED, "cancel": State.CANCELLED}
_ROWS = {"succeed": "d", "advance": "n"}


@dataclass(frozen=True)
class Line:
    """A concurrency key, with the limit and the order that all jobs under it have."""

    key: str | None = None
    limit: int | None = None
    ordered: bool = False


NO_LINE = Line()


class Taken(Exception):
    """A unique key is taken, and the caller wants to be told."""


@dataclass
class Job:
    id: str
    lane: Lane
    max_attempts: int
    run_at: datetime
    expires_at: datetime | None
    line: Line = NO_LINE
    unique: str | None = None
    until_claimed: bool = False
    period: float | None = None
    state: State = State.READY
    step: str = ""
    attempt: int = 0
    claim: int = 0
    worker: int | None = None
    cancelling: bool = False
    holds: bool = False
    seq: int | None = None
    """None from when a place at the tail was drawn until the database was asked which one."""

    @property
    def waits(self) -> bool:
        return not self.state.finished and self.state is not State.RUNNING

    @property
    def has_its_key(self) -> bool:
        """Nobody else may be made with its unique key."""
        counts = self.unique is not None and not (self.until_claimed and self.claim)
        return counts and not self.state.finished

    @property
    def place(self) -> tuple[int, int]:
        return (0 if self.line.ordered else -self.lane.priority, self.seq or 0)

    def end(self, state: State) -> None:
        self.state, self.cancelling, self.holds = state, False, False

    def go(self, run_at: datetime, now: datetime) -> None:
        """To the tail of its lane, to the end of its line, or to where it will be promoted from."""
        self.run_at, self.worker, self.seq = run_at, None, None
        self.state = State.SCHEDULED if run_at > now else self.awake

    @property
    def awake(self) -> State:
        """Where a job stands that is due."""
        return State.BLOCKED if self.line.key and not self.holds else State.READY


@dataclass
class Model:
    now: datetime
    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: set[tuple[str, int, int, str]] = field(default_factory=set)
    """Job, claim, attempt and kind of error (or outcome) of every attempt that has a row."""
    leases: dict[int, datetime] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
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

    def claim(self, worker: int, asks: Sequence[Ask], room: int) -> dict[str, int]:
        """The jobs claimed, each with its claim number."""
        taken: dict[str, int] = {}
        ready = [job for job in self.all(State.READY) if not self.expired(job)]
        for ask in asks if self.alive(worker) else ():
            lane = {job.seq or 0: job for job in ready if job.lane == ask.lane}
            behind = [seq for seq in sorted(lane) if seq > ask.cursor]
            for seq in behind[: 0 if ask.lane.queue in self.paused else ask.room]:
                if len(taken) < room:
                    job = lane[seq]
                    job.state, job.worker = State.RUNNING, worker
                    job.claim, job.attempt = job.claim + 1, job.attempt + 1
                    taken[job.id] = job.claim
        return taken

    def settle(self, job_id: str, claim: int, verdict: Verdict) -> bool:
        """Whether it took effect."""
        job = self.jobs[job_id]
        if job.state is not State.RUNNING or job.claim != claim:
            return False
        step, attempt = job.step, job.attempt
        if verdict.kind in _ENDS:
            job.end(_ENDS[verdict.kind])
        elif job.cancelling:
            return False
        elif verdict.advance is not None:
            self._advance(job, verdict.advance)
        else:
            seq = job.seq if verdict.kind == "release" else None
            job.attempt = attempt = job.attempt - (verdict.kind != "retry")
            job.holds &= job.line.ordered or verdict.delay == 0
            job.go(self.now + timedelta(seconds=verdict.delay), self.now)
            job.seq = seq
        if verdict.error is not None:
            self.attempts.add((job_id, claim, attempt, verdict.error["type"]))
        elif verdict.kind == "advance" or (verdict.kind == "succeed" and step):
            self.attempts.add((job_id, claim, attempt, _ROWS[verdict.kind]))
        return True

    def _advance(self, job: Job, to: Advance) -> None:
        line = Line(to.key, to.key_limit, to.ordered)
        job.holds &= line == job.line and (to.delay == 0 or line.ordered)
        job.line, job.lane, job.step = line, Lane(to.queue, to.priority), to.step
        job.attempt, job.max_attempts = 0, to.max_attempts
        job.go(self.now + timedelta(seconds=to.delay), self.now)

    def admit(self, keys: Iterable[str]) -> int:
        admitted = 0
        for key in set(keys):
            under = [job for job in self.jobs.values() if job.line.key == key]
            held = sum(job.holds for job in under)
            blocked = sorted(
                (job for job in under if job.state is State.BLOCKED), key=lambda job: job.place
            )
            room = max(0, (blocked[0].line.limit or 0) - held) if blocked else 0
            for job in blocked[:room]:
                job.state, job.holds, job.seq = State.READY, True, None
                admitted += 1
        return admitted

    # -- the fleet --------------------------------------------------------------------------------

    def rescue(self) -> tuple[int, int]:
        """How many run again, how many ended."""
        lost = [job for job in self.all(State.RUNNING) if not self.alive(job.worker)]
        for job in lost:
            self.attempts.add((job.id, job.claim, job.attempt, "WorkerLost"))
            if job.cancelling or job.attempt >= job.max_attempts:
                job.end(State.CANCELLED if job.cancelling else State.FAILED)
            else:
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
            job.end(State.EXPIRED)
        return len(old)

    # -- people -----------------------------------------------------------------------------------

    def cancel(self, job: Job) -> str | None:
        if job.state is State.RUNNING:
            job.cancelling = True
            return "asked"
        if not job.waits:
            return None
        job.end(State.CANCELLED)
        return "cancelled"

    def revive(self, job: Job) -> bool:
        if job.state in (State.FAILED, State.CANCELLED, State.EXPIRED):
            job.attempt, job.expires_at = 0, None
            if self._holder(job) is not None:
                job.unique = None
        elif job.state is not State.SCHEDULED:
            return False
        job.go(self.now, self.now)
        return True
