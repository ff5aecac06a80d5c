"""A job of the model, and the line that it stands in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headway.core.state import State
from headway.store.rows import Lane
from tests.model.controls import Rate
from tests.store.store import TASK

HANDLERS = (TASK, f"{TASK}/pack", f"{TASK}/mail")


@dataclass(frozen=True)
class Line:
    """A concurrency key, with the limit and the order that all jobs under it have. A limit of 0 is
    what is said of each key of their handler."""

    key: str | None = None
    limit: int | None = None
    ordered: bool = False


NO_LINE = Line()


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
    crashes: int = 0
    """How often in a row its worker or its process died under it."""
    touched: bool = False
    """While it runs: somebody locked its row since it was claimed, and may still have it."""
    kept: bool = True
    """Once it has ended: it is in the archive."""
    holds: bool = False
    rate: Rate | None = None
    """While it runs: the rate of its key that it took a token of."""
    limited: bool = False
    """It counts under the limit of its queue or task, while it runs."""
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
    def handler(self) -> str:
        return f"{TASK}/{self.step}" if self.step else TASK

    @property
    def claims(self) -> int:
        """How often it was claimed: the part of the claim number that counts."""
        return self.claim >> 32

    @property
    def place(self) -> tuple[int, int]:
        return (0 if self.line.ordered else -self.lane.priority, self.seq or 0)

    def go(self, run_at: datetime, now: datetime) -> None:
        """To the tail of its lane, to the end of its line, or to where it will be promoted from."""
        self.run_at, self.worker, self.seq = run_at, None, None
        self.state = State.SCHEDULED if run_at > now else self.awake

    @property
    def awake(self) -> State:
        """Where a job stands that is due."""
        return State.BLOCKED if self.line.key and not self.holds else State.READY
