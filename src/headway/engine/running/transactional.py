"""Attempts that settle themselves: `transaction=True`.

The verdict of a success is written on the handler's own connection and commits with its effects. The
write is fenced as always: where the claim was lost, or the job was asked to stop, all of it is rolled
back. A failure is rolled back first and settled like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headway.core import failure
from headway.core.clock import Clock, monotonic
from headway.core.verdict import Broke, Moved, Outcome, Returned, Stopped, Verdict
from headway.store import jobs
from headway.store.connect import Target
from headway.store.documents import Settled
from headway.store.faults import DRIVER_ERRORS, is_about_data, translate
from headway.store.rows import Claim, NotSettled
from headway.store.statement import Statement
from headway.store.transactions import AsyncLent, SyncLent, Transactions

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_LOCKED_FOR = 300.0
_APART = 4
"""Connections for verdicts that make jobs with unique keys: each may wait for somebody's open
transaction."""


@dataclass(slots=True)
class Booked:
    """The attempt succeeded and is settled already."""

    verdict: Verdict


class Books:
    """Lends transactions to handlers and closes them with their verdicts."""

    def __init__(
        self,
        target: Target,
        clock: Clock,
        most: int,
        worker: Callable[[], int],
        hand_on: Callable[[str], None],
    ) -> None:
        """`worker` says under which id jobs are claimed; `hand_on` is told of each key under which room
        was freed, or looked for."""
        self._target = target
        self._worker = worker
        self._clock = clock
        self._transactions = Transactions(target, most)
        self._apart = Transactions(target, _APART)
        self._hand_on = hand_on

    async def lend(self, *, sync: bool) -> AsyncLent | SyncLent:
        return await self._transactions.begin(sync=sync, worker=self._worker())

    async def lend_apart(self) -> AsyncLent | SyncLent:
        """Lend a transaction for a verdict alone, which never waits for those that handlers have."""
        return await self._apart.begin(sync=False, worker=self._worker())

    async def settle(
        self, lent: AsyncLent | SyncLent, claim: Claim, outcome: Returned | Moved
    ) -> Outcome | Booked:
        """Settles in the handler's transaction and commits it."""
        verdict, statement = self._statement(claim, outcome)
        try:
            answer = await self._settled(lent, statement, claim)
        except DRIVER_ERRORS as error:
            refused = translate(error)
            if not is_about_data(refused):
                raise
            await lent.rollback()
            words = f"what it came to could not be stored: {refused}"
            return Broke(failure.envelope(failure.INVALID_RESULT, words), again=False)
        if answer is not None:
            await lent.rollback()
            # A claim that is not there is lost. Only the row itself can say that somebody asked
            # the job to stop.
            return Stopped("cancel" if answer == "asked" else "shutdown")
        await lent.commit()
        for key in Settled(claim, verdict).touched_keys:
            # Should this worker not live to hand it on, the leader's scan finds it.
            self._hand_on(key)
        return Booked(verdict)

    async def _settled(
        self, lent: AsyncLent | SyncLent, statement: Statement[NotSettled], claim: Claim
    ) -> str | None:
        """Return None if the verdict was written, else why not. A row that somebody has locked is
        tried again for a while: it delays this job alone."""
        pause, until = _FIRST_PAUSE, monotonic() + _LOCKED_FOR
        while True:
            answer = (await lent.settle(statement)).get(claim.id)
            if answer != "locked" or monotonic() > until:
                return answer
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def cut(self, *, lent: bool) -> None:
        """Give up connections that may lead to another server than the worker's: those that are
        kept, and if `lent` those that handlers use."""
        self._transactions.cut(lent=lent)
        self._apart.cut(lent=lent)

    async def close(self) -> None:
        await self._transactions.close()
        await self._apart.close()

    def _statement(
        self, claim: Claim, outcome: Returned | Moved
    ) -> tuple[Verdict, Statement[NotSettled]]:
        now = self._clock.now()
        if isinstance(outcome, Moved):
            verdict = Verdict(
                "advance",
                advance=outcome.advance,
                carried=outcome.carried,
                children=outcome.children,
            )
            return verdict, jobs.advance(self._target, [Settled(claim, verdict)], now)
        verdict = Verdict(
            "succeed", result=outcome.result, carried=outcome.carried, children=outcome.children
        )
        return verdict, jobs.finish(self._target, [Settled(claim, verdict)], now, careful=True)
