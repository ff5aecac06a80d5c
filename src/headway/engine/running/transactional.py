"""Attempts that settle themselves: `transaction=True`.

The verdict of a success is written on the handler's own connection and commits with its effects. The
write is fenced as always: where the claim was lost, or the job was asked to stop, all of it is rolled
back. A failure is rolled back first and settled like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.core import failure
from headway.core.clock import Clock
from headway.core.verdict import Broke, Moved, Outcome, Returned, Stopped, Verdict
from headway.store import jobs
from headway.store.connect import Target
from headway.store.documents import Settled
from headway.store.faults import DRIVER_ERRORS, is_about_data, translate
from headway.store.rows import Claim
from headway.store.statement import Statement
from headway.store.transactions import AsyncLent, SyncLent, Transactions


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
        self._hand_on = hand_on

    async def lend(self, *, sync: bool) -> AsyncLent | SyncLent:
        return await self._transactions.begin(sync=sync, worker=self._worker())

    async def settle(
        self, lent: AsyncLent | SyncLent, claim: Claim, outcome: Returned | Moved
    ) -> Outcome | Booked:
        """Settles in the handler's transaction and commits it."""
        verdict, statement = self._statement(claim, outcome)
        try:
            lost = await lent.settle(statement)
        except DRIVER_ERRORS as error:
            refused = translate(error)
            if not is_about_data(refused):
                raise
            await lent.rollback()
            words = f"what it came to could not be stored: {refused}"
            return Broke(failure.envelope(failure.INVALID_RESULT, words), again=False)
        if lost:
            await lent.rollback()
            # Lost, or asked to stop: only the latter can still be ended.
            return Stopped("cancel")
        keys = Settled(claim, verdict).touched_keys
        if keys:
            # Heard by the fleet, should this worker not live to hand it on.
            await lent.settle(jobs.ring_room(self._target, keys))
        await lent.commit()
        for key in keys:
            self._hand_on(key)
        return Booked(verdict)

    async def close(self) -> None:
        await self._transactions.close()

    def _statement(
        self, claim: Claim, outcome: Returned | Moved
    ) -> tuple[Verdict, Statement[list[str]]]:
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
        return verdict, jobs.finish(self._target, [Settled(claim, verdict)], now)
