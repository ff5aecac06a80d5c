"""One key and its line, and what sessions do with them, one step each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headway.store.documents import Settled
from headway.store.rows import Claim
from headway.store.statement import Statement
from headway.store.statements import jobs
from tests.interleave.driver import Step, begin, commit, does, says
from tests.store.store import Store, new_job, verdict

KEY = "k"


@dataclass
class Line:
    """One key: some of its jobs run, the others stand in line."""

    store: Store
    limit: int = 1
    ordered: bool = False
    running: list[Claim] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    most: int = 3
    """Attempts."""

    def make(self, running: int, blocked: int, late: int = 0, *, lease: float = 30) -> Line:
        """The last `late` of the blocked joined when nobody looked: they may have room."""
        self.store.clear()
        ids = [self.join() for _ in range(running + blocked)]
        self.admit()
        self.running = self.store.claim(self.store.register(lease=lease), room=running)
        assert len(self.running) == running
        self.blocked = ids[running:] + [self.join() for _ in range(late)]
        return self

    def new(self) -> Any:
        key = {"key": KEY, "key_limit": self.limit, "ordered": self.ordered}
        return new_job(max_attempts=self.most, **key)

    def join(self) -> str:
        job = self.new()
        self.store.run(jobs.enqueue(self.store.target, [job], self.store.now))
        return job.id

    def admit(self) -> None:
        """Admit as an admitter does that was notified, or that scans every line."""
        with self.store.conn.transaction():
            self.store.run(jobs.lock_keys([KEY]))
            self.store.run(jobs.unadmit([KEY], self.store.now))
            self.store.run(jobs.admit(self.store.target, [KEY], self.store.now))

    @property
    def holding(self) -> list[str]:
        rows = self.store.rows("select id::text from job where holds order by seq")
        return [row["id"] for row in rows]

    @property
    def waiting(self) -> list[str]:
        rows = self.store.rows("select id::text from job where state = 'b' order by seq")
        return [row["id"] for row in rows]

    def within_the_limit(self) -> None:
        assert len(self.holding) <= self.limit

    def is_used_up(self) -> None:
        """Nobody waits who could run."""
        assert len(self.holding) == self.limit or not self.waiting

    # -- what a session does ------------------------------------------------------------------------

    def settles(
        self, claim: Claim, kind: Any = "succeed", delay: float = 0.0, *, careful: bool = False
    ) -> list[Step]:
        settled = [Settled(claim, verdict(kind, delay=delay))]

        def statement() -> Statement[Any]:
            if kind == "succeed":
                return jobs.finish(self.store.target, settled, self.store.now, careful=careful)
            return jobs.requeue(self.store.target, 0, settled, self.store.now)

        return [does(begin, says(statement)), *self.admits()]

    def admits(self) -> list[Step]:
        lock = does(_begun, says(lambda: jobs.lock_keys([KEY])))
        return [lock, says(lambda: jobs.admit(self.store.target, [KEY], self.store.now)), commit]

    def alone(self, statement: Callable[[], Statement[Any]], end: Step = commit) -> list[Step]:
        """A transaction of one statement that stays open for a while."""
        return [does(begin, says(statement)), end]

    def cancels(self, job_id: str) -> list[Step]:
        return self.alone(lambda: jobs.cancel(self.store.target, [job_id], self.store.now))

    def rescues(self) -> list[Step]:
        return self.alone(lambda: jobs.rescue(self.store.target, 99, self.store.now))


def _begun(session: Any) -> None:
    if session.conn.info.transaction_status.name == "IDLE":
        begin(session)
