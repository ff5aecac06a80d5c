"""Jobs claimed as a worker claims them, to be run in this process or isolated."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headway import Headway
from headway.calls import Options
from headway.core import codec
from headway.core.clock import monotonic
from headway.core.definition import Definition
from headway.core.verdict import Outcome, Returned
from headway.engine.running.attempt import Handlers
from headway.engine.running.isolation import Isolation
from headway.engine.running.job import Running
from headway.engine.running.replies import Reply, reply_of
from headway.engine.running.transactional import Booked, Books
from headway.store import fleet, jobs
from headway.store.documents import Ask, Share
from headway.task import Bound

MAX_RESULT = 2_000


class Bench:
    """Claims jobs as a worker does, and runs them in this process or isolated."""

    def __init__(self, hw: Headway) -> None:
        self.hw = hw
        self.worker_id = 0
        self.handed_on: list[str] = []
        self.noted: list[dict[str, Any]] = []
        self.started: list[str] = []
        self.overrides: dict[Any, Any] = {}
        self.load_again: Callable[[], Headway] | None = None
        self._books: Books | None = None
        self._handlers: Handlers | None = None
        self._isolation: Isolation | None = None

    async def open(self) -> None:
        client = await self.hw.session.ready_client()
        worker = fleet.register("here:1", "0", 10, ["default"], ["any"], 600, None)
        self.worker_id = await client.run(worker)

    async def close(self) -> None:
        if self._isolation is not None:
            self._isolation.close()
        if self._handlers is not None and self._books is not None:
            await self._handlers.close()
            await self._books.close()

    @property
    def isolation(self) -> Isolation:
        if self._isolation is None:
            prepare = replace(self.hw.session.prepare_child(), load_again=self.load_again)
            self._isolation = Isolation(
                self.hw.session.target,
                most=1,
                max_result=MAX_RESULT,
                prepare=prepare,
                clock=self.hw.session.clock,
                overrides=self.overrides,
                worker=lambda: self.worker_id,
                hand_on=self.handed_on.append,
            )
        return self._isolation

    @property
    def handlers(self) -> Handlers:
        if self._handlers is None:
            session = self.hw.session
            self._books = Books(
                session.target, session.clock, 1, lambda: self.worker_id, self.handed_on.append
            )
            self._handlers = Handlers(
                threads=1,
                processes=1,
                max_result=MAX_RESULT,
                overrides=self.overrides,
                prepare_child=session.prepare_child(),
                books=self._books,
                stop=lambda *_: None,
                note=lambda _, progress: self.noted.append(progress),
            )
        return self._handlers

    async def claimed(self, definition: Definition, *args: Any, **options: Any) -> Running:
        """A new job, claimed. Nothing else of its handler may be ready."""
        bound: Bound[..., Any] = Bound(self.hw.session, definition, Options(**options))
        job = await bound.enqueue(*args)
        client = await self.hw.session.ready_client()
        if definition.key is not None:
            await client.run(jobs.admit(self.hw.session.target, [str(definition.key.by)], None))
        ask = Ask(options.get("priority", definition.priority), 0, 10, (definition.handler,))
        share = Share(definition.queue, 10, [ask])
        (claim,) = await client.run(jobs.claim(self.worker_id, [share], None))
        assert claim.id == str(job.id)
        return Running(claim, definition, monotonic())

    async def isolated(self, running: Running) -> Outcome | Booked:
        outcome = await self.isolation.outcome(
            running,
            lambda: self.started.append(running.claim.id),
            self.noted.append,
        )
        assert self.started[-1:] == [running.claim.id]
        return outcome

    async def run(self, task: Any, *args: Any, **options: Any) -> Outcome | Booked:
        """The outcome of a new job, isolated."""
        return await self.isolated(await self.claimed(task.definition, *args, **options))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def value(outcome: Outcome | Booked) -> Any:
    assert isinstance(outcome, Returned), outcome
    return codec.decode(outcome.result)


def comparable(outcome: Outcome | Booked, definition: Definition) -> Reply:
    """What two runs of the same handler have in common."""
    reply = reply_of(outcome, definition.retry)
    if reply.error is not None:
        kept = {name: reply.error.get(name) for name in ("type", "message", "chain")}
        reply = replace(reply, error=kept)
    for child in reply.children or ():
        child.id = ""
        child.input = codec.Raw(bytes(child.input))
    return reply
