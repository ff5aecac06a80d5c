"""Verdicts on their way to the database.

Handlers leave verdicts here; the exchange takes them in batches and says what came of each. Nothing
is forgotten before the database has answered: a batch that fails comes back whole, and one that the
server refuses for what is in it is taken apart until the one bad verdict stands alone (G8).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from headway.core import failure
from headway.core.verdict import CANCEL, Verdict
from headway.store.documents import Settled
from headway.store.rows import Claim

log = logging.getLogger("headway.worker")

_MOST_BYTES = 8 * 1024 * 1024
"""Of results in one batch, or one more than that: what takes too long to send is never settled."""


@dataclass(slots=True)
class Batch:
    """Verdicts sent together: those that end jobs, that move flows on, that send jobs round again."""

    finish: list[Settled] = field(default_factory=list[Settled])
    advance: list[Settled] = field(default_factory=list[Settled])
    requeue: list[Settled] = field(default_factory=list[Settled])

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


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker did in its life: verdicts by kind, and claims it lost."""

    settled: Mapping[str, int]
    lost: int

    @property
    def total(self) -> int:
        return sum(self.settled.values())


class Settler:
    """Holds verdicts until they are settled or known to be lost."""

    def __init__(self, batch: int, wake: Callable[[], None]) -> None:
        self._most = batch
        self._size = batch
        self._wake = wake
        self._waiting: deque[Settled] = deque()
        self._unsettled = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self._elsewhere = list[Claim]()
        self.settled = dict[str, int]()
        self.lost = 0

    def add(self, claim: Claim, verdict: Verdict) -> None:
        """Leaves a verdict to be settled."""
        self._waiting.append(Settled(claim, verdict))
        self._unsettled += 1
        self._empty.clear()
        self._wake()

    def count(self, claim: Claim, verdict: Verdict) -> None:
        """Takes in a verdict that was settled elsewhere, in the handler's own transaction."""
        self._elsewhere.append(claim)
        self._wake()
        self._unsettled += 1
        self._close(Settled(claim, verdict), lost=False)

    def take_elsewhere(self) -> list[Claim]:
        """The claims that were settled elsewhere since this was last asked."""
        ended, self._elsewhere = self._elsewhere, []
        return ended

    @property
    def report(self) -> Report:
        return Report(dict(self.settled), self.lost)

    @property
    def unsettled(self) -> int:
        return self._unsettled

    def unsettled_ids(self) -> list[str]:
        """The jobs whose verdict is still here, none of it under way."""
        return [settled.claim.id for settled in self._waiting]

    async def drained(self) -> None:
        """Returns when every verdict has been settled."""
        await self._empty.wait()

    def take(self) -> Batch | None:
        """The next batch to send, if there is one."""
        if not self._waiting:
            return None
        batch, count, size = Batch(), 0, 0
        while self._waiting and count < self._size and size < _MOST_BYTES:
            settled = self._waiting.popleft()
            count += 1
            size += settled.verdict.size
            batch.add(settled)
        return batch

    def sent(self, batch: Batch, lost: Sequence[str], untouched: Sequence[str]) -> None:
        """A batch was written, but for the claims that were lost, or asked to stop meanwhile."""
        self._size = self._most
        gone, stopped = set(lost), set(untouched)
        for settled in batch.finish:
            self._close(settled, lost=settled.claim.id in gone)
        for settled in chain(batch.advance, batch.requeue):
            if settled.claim.id in stopped:
                # Lost, or cancelled while it ran: only one of them can still be ended.
                self._waiting.appendleft(Settled(settled.claim, CANCEL))
            else:
                self._close(settled, lost=False)

    def unsent(self, batch: Batch) -> None:
        """The database could not be reached: the batch goes first when it can."""
        self._waiting.extendleft(reversed(list(batch)))

    def refused(self, batch: Batch, error: BaseException) -> None:
        """The server refused a batch for what is in it: try smaller ones, down to the culprit."""
        if len(batch) > 1:
            self._size = max(1, len(batch) // 2)
            self.unsent(batch)
            return
        (settled,) = batch
        kind = settled.verdict.kind
        log.error("%s of job %s was refused: %s", kind, settled.claim.id, error)
        if settled.verdict.error and settled.verdict.error.get("type") == failure.INVALID_RESULT:
            # Not even the note about it can be stored; the lease's end will free the job.
            self._close(settled, lost=True)
            return
        note = failure.envelope(
            failure.INVALID_RESULT, f"what it came to could not be stored: {error}"
        )
        self._waiting.appendleft(Settled(settled.claim, Verdict("fail", error=note)))

    def _close(self, settled: Settled, *, lost: bool) -> None:
        self._unsettled -= 1
        if lost:
            self.lost += 1
            log.warning(
                "job %s is no longer this worker's: settled before a reply was lost, or given to another",
                settled.claim.id,
                extra={"job_id": settled.claim.id, "task": settled.claim.task},
            )
        else:
            kind = settled.verdict.kind
            self.settled[kind] = self.settled.get(kind, 0) + 1
        if self._unsettled == 0:
            self._empty.set()
