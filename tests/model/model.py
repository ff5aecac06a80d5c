"""What the database should do, in plain Python: every move of core/state.py on a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headway.core.state import State
from headway.core.verdict import Verdict
from headway.store.jobs import Ask
from headway.store.rows import Lane

LEASE = timedelta(seconds=30)
_ENDS = {"succeed": State.SUCCEEDED, "fail": State.FAILED, "cancel": State.CANCELLED}


@dataclass
class Job:
    id: str
    lane: Lane
    max_attempts: int
    run_at: datetime
    expires_at: datetime | None
    state: State
    attempt: int = 0
    claim: int = 0
    worker: int | None = None
    cancelling: bool = False
    seq: int | None = None
    """None from when a place at the tail was drawn until the database was asked which one."""

    @property
    def waits(self) -> bool:
        return not self.state.finished and self.state is not State.RUNNING

    def end(self, state: State) -> None:
        self.state, self.cancelling = state, False

    def go(self, state: State, run_at: datetime) -> None:
        """To the tail of its lane, or to where it will be promoted from."""
        self.state, self.run_at, self.worker, self.seq = state, run_at, None, None


@dataclass
class Model:
    now: datetime
    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: set[tuple[str, int, int, str]] = field(default_factory=set)
    """Job, claim, attempt and kind of error of every attempt that failed."""
    leases: dict[int, datetime] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)

    def alive(self, worker: int | None) -> bool:
        return worker is not None and self.leases[worker] > self.now

    def expired(self, job: Job) -> bool:
        return job.expires_at is not None and job.expires_at <= self.now

    def all(self, *states: State) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in states]

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
        if verdict.kind in _ENDS:
            job.end(_ENDS[verdict.kind])
        elif job.cancelling:
            return False
        else:
            seq = job.seq if verdict.kind == "release" else None
            job.attempt -= verdict.kind != "retry"
            due = self.now + timedelta(seconds=verdict.delay)
            job.go(State.SCHEDULED if due > self.now else State.READY, due)
            job.seq = seq
        if verdict.error is not None:
            self.attempts.add((job_id, claim, job.attempt, verdict.error["type"]))
        return True

    def rescue(self) -> tuple[int, int]:
        """How many run again, how many ended."""
        lost = [job for job in self.all(State.RUNNING) if not self.alive(job.worker)]
        for job in lost:
            self.attempts.add((job.id, job.claim, job.attempt, "WorkerLost"))
            if job.cancelling or job.attempt >= job.max_attempts:
                job.end(State.CANCELLED if job.cancelling else State.FAILED)
            else:
                job.go(State.READY, self.now)
        ended = sum(job.state.finished for job in lost)
        return len(lost) - ended, ended

    def promote(self) -> int:
        due = [job for job in self.all(State.SCHEDULED) if job.run_at <= self.now]
        for job in due:
            job.go(State.READY, job.run_at)
        return len(due)

    def expire(self) -> int:
        old = [job for job in self.jobs.values() if job.waits and self.expired(job)]
        for job in old:
            job.end(State.EXPIRED)
        return len(old)

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
        elif job.state is not State.SCHEDULED:
            return False
        job.go(State.READY, self.now)
        return True
