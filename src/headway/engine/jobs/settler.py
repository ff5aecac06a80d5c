"""Verdicts on their way to the database.

Handlers leave verdicts here. The job loop takes them in batches and reports the answer to each. A
verdict is kept until the database has answered:

- A batch that could not be sent comes back as a whole.
- A verdict whose row another session has locked is set aside, and sent again later (G14).
- A verdict that the server refuses is replaced by a failure that says so. If that is refused too, it
  is replaced by a snooze. So the claim is released in the end, and no other verdict suffers (G8).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from headway.core import failure
from headway.core.clock import monotonic
from headway.core.verdict import CANCEL, RELEASE, Verdict
from headway.store.documents import Settled
from headway.store.rows import Claim, NotSettled

log = logging.getLogger("headway.worker")

_MOST_BYTES = 8 * 1024 * 1024
"""Soft limit on the bytes of one batch (one result may exceed it): a batch that cannot be sent within the
timeout would never be settled."""
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_LET_GO = Verdict("snooze", delay=60.0)
"""For a job of which the server refuses to store any end."""


@dataclass(slots=True)
class VerdictBatch:
    """Verdicts that are sent together: they end jobs, move flows on, or requeue jobs."""

    finish: list[Settled] = field(default_factory=list[Settled])
    advance: list[Settled] = field(default_factory=list[Settled])
    requeue: list[Settled] = field(default_factory=list[Settled])
    careful: bool = False
    """Lock the rows first: another session, or a refused transaction, may have locked some."""

    @classmethod
    def of(cls, verdicts: list[Settled], *, careful: bool = False) -> VerdictBatch:
        """Return a batch of these verdicts."""
        batch = cls(careful=careful)
        for settled in verdicts:
            batch.add(settled)
        return batch

    def __len__(self) -> int:
        return len(self.finish) + len(self.advance) + len(self.requeue)

    def __iter__(self) -> Iterator[Settled]:
        return chain(self.finish, self.advance, self.requeue)

    def add(self, settled: Settled) -> None:
        match settled.verdict.kind:
            case "succeed" | "fail" | "cancel":
                self.finish.append(settled)
            case "advance":
                self.advance.append(settled)
            case "retry" | "snooze" | "release":
                self.requeue.append(settled)

    def halves(self) -> tuple[VerdictBatch, VerdictBatch]:
        """Return the two halves of a batch of several."""
        verdicts = list(self)
        middle = len(verdicts) // 2
        return (
            VerdictBatch.of(verdicts[:middle], careful=self.careful),
            VerdictBatch.of(verdicts[middle:], careful=self.careful),
        )


@dataclass(slots=True)
class _Aside:
    """A verdict that is sent again at its own moment."""

    settled: Settled
    due_at: float
    pause: float
    alone: bool = False
    """The server refused it, so it is sent without any other."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Everything a worker settled: verdicts by kind, and claims that it lost."""

    settled: Mapping[str, int]
    lost: int

    @property
    def total(self) -> int:
        return sum(self.settled.values())


class Settler:
    """Holds verdicts until they are settled or known to be lost."""

    def __init__(
        self,
        batch: int,
        wake: Callable[[], None],
        on_settled: Callable[[Settled], None] | None = None,
    ) -> None:
        """`on_settled` is called with each verdict that was written."""
        self._on_settled = on_settled
        self._most = batch
        self._size = batch
        self._wake = wake
        self._waiting: deque[Settled] = deque()
        self._aside: dict[tuple[str, int], _Aside] = {}
        """Verdicts that are sent again at their own moment, by job and claim number."""
        self._marked = 0
        """How many of the first waiting verdicts were in a transaction that was rolled back. It may have
        left its mark on their rows, which looks like a lock (finish.sql)."""
        self._unsettled = 0
        self.unsettled_since = 0.0
        """When the oldest stretch with unsettled verdicts began, if there are any now."""
        self._empty = asyncio.Event()
        self._empty.set()
        self._elsewhere = list[Claim]()
        self.settled = dict[str, int]()
        self.lost = 0

    def add(self, claim: Claim, verdict: Verdict) -> None:
        """Add a verdict, to be settled with the next batch."""
        if self._unsettled == 0:
            self.unsettled_since = monotonic()
        self._waiting.append(Settled(claim, verdict))
        self._unsettled += 1
        self._empty.clear()
        self._wake()

    def count(self, claim: Claim, verdict: Verdict) -> None:
        """Count a verdict that was settled in the handler's own transaction."""
        self._elsewhere.append(claim)
        self._wake()
        self._unsettled += 1
        self._close(Settled(claim, verdict), lost=False)

    def take_elsewhere(self) -> list[Claim]:
        """Return the claims that were settled elsewhere since the last call."""
        ended, self._elsewhere = self._elsewhere, []
        return ended

    @property
    def report(self) -> WorkerReport:
        return WorkerReport(dict(self.settled), self.lost)

    @property
    def unsettled(self) -> int:
        return self._unsettled

    def unsettled_claims(self) -> list[Claim]:
        """Return the claims whose verdict is still here and not under way."""
        aside = (one.settled for one in self._aside.values())
        return [settled.claim for settled in chain(self._waiting, aside)]

    def due_in(self) -> float | None:
        """Return the seconds until a verdict that was set aside is sent again."""
        if not self._aside:
            return None
        return max(0.0, min(aside.due_at for aside in self._aside.values()) - monotonic())

    async def drained(self) -> None:
        """Return when every verdict has been settled."""
        await self._empty.wait()

    def take(self) -> VerdictBatch | None:
        """Return the next batch to send, if there is one."""
        now = monotonic()
        due = [aside for aside in self._aside.values() if aside.due_at <= now]
        if alone := next((aside for aside in due if aside.alone), None):
            return VerdictBatch.of([alone.settled], careful=True)
        if not self._waiting and not due:
            return None
        careful = bool(due) or self._marked > 0
        batch = VerdictBatch.of([aside.settled for aside in due], careful=careful)
        count = size = 0
        while self._waiting and count < self._size and size < _MOST_BYTES:
            settled = self._waiting.popleft()
            count += 1
            size += settled.verdict.size
            batch.add(settled)
        self._marked = max(0, self._marked - count)
        return batch

    def sent(self, batch: VerdictBatch, answers: NotSettled) -> None:
        """Take in the answers to a batch: it was written, except for the jobs in `answers`."""
        self._size = min(self._most, self._size * 2)
        for settled in batch:
            aside = self._aside.pop(_name(settled), None)
            match answers.get(settled.claim.id):
                case None:
                    self._close(settled, lost=False)
                case "lost":
                    self._close(settled, lost=True)
                case "locked":
                    self._set_aside(settled, aside)
                case "asked":
                    # The question has locked the row, so only a careful batch can write it.
                    cancel = Settled(settled.claim, CANCEL)
                    self._aside[_name(cancel)] = _Aside(cancel, 0.0, _FIRST_PAUSE)
                case "unasked":
                    # Nobody asks it to stop any more, and its handler has ended: it runs again.
                    self._waiting.appendleft(Settled(settled.claim, RELEASE))

    def unsent(self, batch: VerdictBatch) -> None:
        """Take back a batch that could not be sent: it goes first when the database can be reached."""
        unsent = [settled for settled in batch if _name(settled) not in self._aside]
        self._waiting.extendleft(reversed(unsent))
        self._marked += len(unsent)

    def shrink(self, batch: VerdictBatch) -> None:
        """Send fewer verdicts at a time: this batch took too long."""
        self._size = max(1, len(batch) // 2)

    def refused(self, settled: Settled, error: BaseException) -> Settled | None:
        """Return the verdict that replaces one whose data the server refused. Return None if it was
        set aside."""
        claim, verdict = settled.claim, settled.verdict
        self._aside.pop(_name(settled), None)
        extra = {"job_id": claim.id, "task": claim.task}
        if verdict is _LET_GO:
            # Not even the snooze can be written. It is sent again now and then, by itself.
            log.error("job %s cannot be released: %s", claim.id, error, extra=extra)
            due_at = monotonic() + _LONGEST_PAUSE
            self._aside[_name(settled)] = _Aside(settled, due_at, _LONGEST_PAUSE, alone=True)
            return None
        log.error("%s of job %s was refused: %s", verdict.kind, claim.id, error, extra=extra)
        if verdict.error and verdict.error.get("type") == failure.INVALID_RESULT:
            # Not even the failure can be stored. The claim is released all the same.
            return Settled(claim, _LET_GO)
        note = failure.envelope(failure.INVALID_RESULT, f"the outcome could not be stored: {error}")
        return Settled(claim, Verdict("fail", error=note))

    def _set_aside(self, settled: Settled, before: _Aside | None) -> None:
        pause = _FIRST_PAUSE
        if before is None:
            log.info(
                "job %s is locked by an open transaction; sending its %s again until it is free",
                settled.claim.id,
                settled.verdict.kind,
                extra={"job_id": settled.claim.id, "task": settled.claim.task},
            )
        else:
            pause = min(before.pause * 2, _LONGEST_PAUSE)
        self._aside[_name(settled)] = _Aside(settled, monotonic() + pause, pause)

    def _close(self, settled: Settled, *, lost: bool) -> None:
        self._unsettled -= 1
        if lost:
            self.lost += 1
            log.warning(
                "lost job %s: it was settled before a reply was lost, or another worker has it",
                settled.claim.id,
                extra={"job_id": settled.claim.id, "task": settled.claim.task},
            )
        else:
            kind = settled.verdict.kind
            self.settled[kind] = self.settled.get(kind, 0) + 1
            if self._on_settled is not None:
                self._on_settled(settled)
        if self._unsettled == 0:
            self._empty.set()


def _name(settled: Settled) -> tuple[str, int]:
    return settled.claim.id, settled.claim.number
