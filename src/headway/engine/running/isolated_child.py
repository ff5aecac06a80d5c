"""The inside of a child process that runs suspects: the other end of `isolation.py`.

A child runs any job as a worker does: with the same `Handlers`, and connections of its own. It never
stops a job itself, not even at its timeout: the worker kills the child instead.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from headway.core.clock import Clock, monotonic
from headway.core.definition import Definition
from headway.core.verdict import Moved, Outcome, Returned
from headway.engine import loop
from headway.engine.registration import Registration
from headway.engine.running.attempt import Handlers
from headway.engine.running.child import Prepare, Say, attend, call
from headway.engine.running.child_messages import Message, Request, reply_of
from headway.engine.running.invoke import Overrides
from headway.engine.running.job import Reason, RunningJob
from headway.engine.running.transactional import SettledInTransaction, TransactionalSettler
from headway.store.connections.connect import Target
from headway.store.connections.handler_transactions import (
    AsyncHandlerTransaction,
    SyncHandlerTransaction,
)
from headway.store.rows import Claim

log = logging.getLogger("headway.worker")


@dataclass(frozen=True, slots=True)
class HandlerEnvironment:
    """The part of a worker that its handlers depend on. It can be sent to a child."""

    target: Target
    max_result: int
    overrides: Overrides
    prepare: Prepare


def serve(pipe: Connection, worker: HandlerEnvironment) -> None:
    """Run suspects one after another."""
    # The worker ends its children itself, so this need not be a daemon. A daemon could not have children,
    # and a handler may start some.
    multiprocessing.current_process().daemon = False

    def run(request: Request, definition: Definition, say: Say) -> None:
        loop.run(_run(worker, request, definition, say))

    attend(pipe, worker.prepare, run)


async def _run(
    worker: HandlerEnvironment, request: Request, definition: Definition, say: Say
) -> None:
    if definition.batch is not None:
        # The child runs one job, so there are no others to wait for.
        definition = replace(definition, batch=replace(definition.batch, size=1))
    clock = Clock(request.now)
    transactional = _IsolatedSettler(worker.target, request, lambda: say(Message(settling=True)))
    handlers = Handlers(
        threads=1,
        processes=1,
        max_result=worker.max_result,
        overrides=worker.overrides,
        prepare_child=worker.prepare,
        transactional=transactional,
        owner=_ToWorker(say),
        clock=clock,
    )
    running = RunningJob(request.claim, definition, monotonic())
    outcome: Outcome | SettledInTransaction
    if definition.executor == "process":
        # This is already a separate process.
        outcome = await call(
            definition,
            request.claim,
            request.timeout,
            worker.max_result,
            lambda progress: say(Message(progress=progress)),
            clock,
        )
    else:
        outcome = await handlers.outcome(running)
    say(Message(reply=reply_of(outcome, definition.retry)))
    # The job is not charged for anything from here on: a worker also closes dependencies later.
    try:
        await handlers.close()
        await transactional.close()
    except BaseException:
        log.exception("could not close the dependencies of %s after a job", definition.handler)


class _ToWorker:
    """Sends progress to the worker: `JobOwner`. It stops no job, because the worker kills the child."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def stop(self, job_id: str, reason: Reason) -> None:
        pass

    def note(self, claim: Claim, progress: dict[str, Any]) -> None:
        self._say(Message(progress=progress))


class _IsolatedSettler(TransactionalSettler):
    """Tells the worker before it commits an attempt: the attempt cannot be stopped after that."""

    def __init__(self, target: Target, request: Request, settling: Callable[[], None]) -> None:
        super().__init__(
            target, Clock(request.now), 1, Registration(request.worker), _leave_to_the_worker
        )
        self._settling = settling

    async def settle(
        self,
        transaction: AsyncHandlerTransaction | SyncHandlerTransaction,
        claim: Claim,
        outcome: Returned | Moved,
    ) -> Outcome | SettledInTransaction:
        self._settling()
        return await super().settle(transaction, claim, outcome)


def _leave_to_the_worker(key: str) -> None:
    """Do nothing: the worker admits under the freed keys (`Isolation.outcome`)."""
