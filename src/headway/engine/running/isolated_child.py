"""The inside of a child process that runs suspects: the other end of `isolation.py`.

A child runs any job as a worker does: the same `Handlers`, with connections of its own. It stops no job
by itself, not even at its timeout: the worker kills the child instead.
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
from headway.engine.running.attempt import Handlers
from headway.engine.running.child import Prepare, Say, attend, call
from headway.engine.running.invoke import Overrides
from headway.engine.running.job import Reason, Running
from headway.engine.running.replies import Message, Request, reply_of
from headway.engine.running.transactional import Booked, Books
from headway.store.connect import Target
from headway.store.rows import Claim
from headway.store.transactions import AsyncLent, SyncLent

log = logging.getLogger("headway.worker")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The part of a worker that its handlers depend on. It can be sent to a child."""

    target: Target
    max_result: int
    overrides: Overrides
    prepare: Prepare


def serve(pipe: Connection, worker: Surroundings) -> None:
    """Run suspects one after another."""
    # The worker ends its children itself. A daemon could not have children of its own, and a handler
    # may start some.
    multiprocessing.current_process().daemon = False

    def run(request: Request, definition: Definition, say: Say) -> None:
        loop.run(_run(worker, request, definition, say))

    attend(pipe, worker.prepare, run)


async def _run(worker: Surroundings, request: Request, definition: Definition, say: Say) -> None:
    def note(_: Claim, progress: dict[str, Any]) -> None:
        say(Message(progress=progress))

    if definition.batch is not None:
        # Nobody else comes here, so there is nobody to wait for.
        definition = replace(definition, batch=replace(definition.batch, size=1))
    books = _Books(worker.target, request, lambda: say(Message(settling=True)))
    handlers = Handlers(
        threads=1,
        processes=1,
        max_result=worker.max_result,
        overrides=worker.overrides,
        prepare_child=worker.prepare,
        books=books,
        stop=_leave_to_the_worker,
        note=note,
    )
    running = Running(request.claim, definition, monotonic())
    outcome: Outcome | Booked
    if definition.executor == "process":
        # This is a process of its own already.
        outcome = await call(
            definition,
            request.claim,
            request.timeout,
            worker.max_result,
            lambda progress: note(request.claim, progress),
        )
    else:
        outcome = await handlers.outcome(running)
    say(Message(reply=reply_of(outcome, definition.retry)))
    # From here on nothing is charged to the job: a worker, too, closes its dependencies later.
    try:
        await handlers.close()
        await books.close()
    except BaseException:
        log.exception("after a job of %s its dependencies could not be closed", definition.handler)


class _Books(Books):
    """Tells the worker before an attempt is committed: from then on it cannot be stopped."""

    def __init__(self, target: Target, request: Request, settling: Callable[[], None]) -> None:
        super().__init__(
            target, Clock(request.now), 1, lambda: request.worker, _leave_to_the_worker
        )
        self._settling = settling

    async def settle(
        self, lent: AsyncLent | SyncLent, claim: Claim, outcome: Returned | Moved
    ) -> Outcome | Booked:
        self._settling()
        return await super().settle(lent, claim, outcome)


def _leave_to_the_worker(key_or_id: str, reason: Reason | None = None) -> None:
    """Do nothing: the worker hands room on, and stops jobs."""
