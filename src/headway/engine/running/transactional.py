"""Attempts that settle themselves: `transaction=True`.

The verdict of a success is written on the handler's own connection and commits with its effects. The
write is fenced as always: if the claim was lost, or the job was asked to stop, everything is rolled back.
After a failure the transaction is rolled back first, and the job is settled like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headway.core import failure
from headway.core.clock import Clock, monotonic
from headway.core.verdict import Broke, Moved, Outcome, Returned, Stopped, Verdict
from headway.engine.registration import Registration
from headway.store.connections.connect import Target
from headway.store.connections.handler_transactions import (
    AsyncHandlerTransaction,
    HandlerTransactions,
    SyncHandlerTransaction,
)
from headway.store.documents import Settled
from headway.store.faults import DRIVER_ERRORS, is_about_data, translate
from headway.store.rows import Claim, NotSettled
from headway.store.statement import Statement
from headway.store.statements import jobs

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_LOCKED_FOR = 300.0
_APART = 4
"""Connections for verdicts that make jobs with unique keys. Each may wait for another open
transaction."""


@dataclass(slots=True)
class SettledInTransaction:
    """The attempt succeeded and is already settled."""

    verdict: Verdict


class TransactionalSettler:
    """Opens transactions for handlers and commits them with their verdicts."""

    def __init__(
        self,
        target: Target,
        clock: Clock,
        most: int,
        registration: Registration,
        freed: Callable[[str], None],
    ) -> None:
        """`freed` is called with each key under which a job has freed room, or needs some."""
        self._target = target
        self._registration = registration
        self._clock = clock
        self._transactions = HandlerTransactions(target, most)
        self._apart = HandlerTransactions(target, _APART)
        self._freed = freed

    async def begin(self, *, sync: bool) -> AsyncHandlerTransaction | SyncHandlerTransaction:
        """Return a transaction for a handler."""
        return await self._transactions.begin(sync=sync, worker=self._registration.worker_id)

    async def begin_apart(self) -> AsyncHandlerTransaction | SyncHandlerTransaction:
        """Return a transaction for a verdict alone. It never waits for those of handlers."""
        return await self._apart.begin(sync=False, worker=self._registration.worker_id)

    async def settle(
        self,
        transaction: AsyncHandlerTransaction | SyncHandlerTransaction,
        claim: Claim,
        outcome: Returned | Moved,
    ) -> Outcome | SettledInTransaction:
        """Settle in the handler's transaction and commit it."""
        verdict, statement = self._statement(claim, outcome)
        try:
            answer = await self._settled(transaction, statement, claim)
        except DRIVER_ERRORS as error:
            refused = translate(error)
            if not is_about_data(refused):
                raise
            await transaction.rollback()
            words = f"the outcome could not be stored: {refused}"
            return Broke(failure.envelope(failure.INVALID_RESULT, words), again=False)
        if answer is not None:
            await transaction.rollback()
            # A missing claim is lost. Only the row itself can show a request to stop.
            return Stopped("cancel" if answer == "asked" else "shutdown")
        await transaction.commit()
        for key in Settled(claim, verdict).touched_keys:
            # If this worker dies before it admits the next job, the leader's scan finds the key.
            self._freed(key)
        return SettledInTransaction(verdict)

    async def _settled(
        self,
        transaction: AsyncHandlerTransaction | SyncHandlerTransaction,
        statement: Statement[NotSettled],
        claim: Claim,
    ) -> str | None:
        """Return None if the verdict was written, else the reason.

        If another transaction has locked the row, try again for a while. That delays only this job.
        """
        pause, until = _FIRST_PAUSE, monotonic() + _LOCKED_FOR
        while True:
            answer = (await transaction.settle(statement)).get(claim.id)
            if answer != "locked" or monotonic() > until:
                return answer
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def cut(self, *, in_use: bool) -> None:
        """Drop idle connections, which may lead to an old server. If `in_use`, also those of handlers."""
        self._transactions.cut(in_use=in_use)
        self._apart.cut(in_use=in_use)

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
