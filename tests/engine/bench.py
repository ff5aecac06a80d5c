"""Jobs claimed as a worker claims them, to be run in this process or isolated."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headway import Headway
from headway._api.new_job import Options
from headway.core import codec
from headway.core.clock import monotonic
from headway.core.definition import Definition
from headway.core.verdict import Outcome, Returned
from headway.engine.registration import Registration
from headway.engine.running.attempt import Handlers
from headway.engine.running.child_messages import ChildReply, reply_of
from headway.engine.running.isolation import Isolation
from headway.engine.running.job import Reason, RunningJob
from headway.engine.running.transactional import SettledInTransaction, TransactionalSettler
from headway.store.documents import Ask, Share
from headway.store.rows import Claim
from headway.store.statements import fleet, jobs
from headway.task import BoundTask

MAX_RESULT = 2_000


class Bench:
    """Claims jobs as a worker does, and runs them in this process or isolated."""

    def __init__(self, hw: Headway) -> None:
        self.hw = hw
        self.registration = Registration()
        self.freed: list[str] = []
        self.noted: list[dict[str, Any]] = []
        self.begins = 0
        """How many attempts began in a child."""
        self.overrides: dict[Any, Any] = {}
        self.load_again: Callable[[], Headway] | None = None
        self._transactional: TransactionalSettler | None = None
        self._handlers: Handlers | None = None
        self._isolation: Isolation | None = None

    async def open(self) -> None:
        client = await self.hw._session.ready_client()
        worker = fleet.register("here:1", "0", 10, ["default"], ["any"], 600, None)
        self.registration.worker_id = await client.run(worker)

    async def close(self) -> None:
        if self._isolation is not None:
            self._isolation.close()
        if self._handlers is not None and self._transactional is not None:
            await self._handlers.close()
            await self._transactional.close()

    @property
    def isolation(self) -> Isolation:
        if self._isolation is None:
            prepare = replace(self.hw._session.prepare_child(), load_again=self.load_again)
            self._isolation = Isolation(
                self.hw._session.target,
                most=1,
                max_result=MAX_RESULT,
                prepare=prepare,
                clock=self.hw._session.clock,
                overrides=self.overrides,
                registration=self.registration,
                freed=self.freed.append,
            )
        return self._isolation

    @property
    def handlers(self) -> Handlers:
        if self._handlers is None:
            session = self.hw._session
            self._transactional = TransactionalSettler(
                session.target, session.clock, 1, self.registration, self.freed.append
            )
            self._handlers = Handlers(
                threads=1,
                processes=1,
                max_result=MAX_RESULT,
                overrides=self.overrides,
                prepare_child=session.prepare_child(),
                transactional=self._transactional,
                owner=self,
                clock=session.clock,
            )
        return self._handlers

    async def claimed(self, definition: Definition, *args: Any, **options: Any) -> RunningJob:
        """A new job, claimed. Nothing else of its handler may be ready."""
        bound: BoundTask[..., Any] = BoundTask(self.hw._session, definition, Options(**options))
        job = await bound.enqueue(*args)
        client = await self.hw._session.ready_client()
        if definition.key is not None:
            await client.run(jobs.admit(self.hw._session.target, [str(definition.key.key)], None))
        ask = Ask(options.get("priority", definition.priority), 0, 10, (definition.handler,))
        share = Share(definition.queue, 10, [ask])
        (claim,) = await client.run(jobs.claim(self.registration.worker_id, [share], None))
        assert claim.id == str(job.id)
        return RunningJob(claim, definition, monotonic())

    async def isolated(self, running: RunningJob) -> Outcome | SettledInTransaction:
        before = self.begins
        outcome = await self.isolation.outcome(running, self)
        assert self.begins == before + 1
        return outcome

    # -- `JobOwner` and `AttemptEvents` -----------------------------------------------------------

    def stop(self, job_id: str, reason: Reason) -> None:
        """No job here has a timeout that it reaches."""

    def note(self, claim: Claim, progress: dict[str, Any]) -> None:
        self.noted.append(progress)

    def begun(self) -> None:
        self.begins += 1

    def progressed(self, progress: dict[str, Any]) -> None:
        self.noted.append(progress)

    async def run(self, task: Any, *args: Any, **options: Any) -> Outcome | SettledInTransaction:
        """The outcome of a new job, isolated."""
        return await self.isolated(await self.claimed(task.definition, *args, **options))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def value(outcome: Outcome | SettledInTransaction) -> Any:
    assert isinstance(outcome, Returned), outcome
    return codec.decode(outcome.result)


def comparable(outcome: Outcome | SettledInTransaction, definition: Definition) -> ChildReply:
    """Return the part of an outcome that two runs of the same handler have in common."""
    reply = reply_of(outcome, definition.retry)
    if reply.error is not None:
        kept = {name: reply.error.get(name) for name in ("type", "message", "chain")}
        reply = replace(reply, error=kept)
    for child in reply.children or ():
        child.id = ""
        child.input = codec.Raw(bytes(child.input))
    return reply
