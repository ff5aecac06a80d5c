"""One round trip of the job loop: the statements of one commit, and their answers.

The order of the statements is the order of their locks and effects. Verdicts come first, because they
free room. Admission follows in the same transaction, so the claim at the end can take the admitted jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from headway.core.info import Control
from headway.engine.claiming.limits import LimitName
from headway.engine.claiming.planner import ClaimPlan
from headway.engine.jobs.limit_room import LimitNews
from headway.engine.jobs.settler import VerdictBatch
from headway.engine.keys.admission import FreedKeys
from headway.store.connections.connect import Target
from headway.store.connections.engine_connection import EngineConnection
from headway.store.rows import Admission, Claim, Lanes, NotSettled
from headway.store.statement import Statement
from headway.store.statements import controls, jobs
from headway.store.statements.controls import LockedLimit

R = TypeVar("R")


@dataclass(slots=True)
class Answers:
    """The answers to a round trip. A part that was not asked for is empty or None."""

    not_settled: NotSettled
    """Why verdicts were not written, by job."""
    admission: Admission | None
    claims: list[Claim] | None
    """None if a plain claim found that a pause or limit is in force."""
    limits: list[LockedLimit]
    """The limits that the claim had to itself."""
    lanes: Lanes | None
    controls: list[Control] | None


@dataclass(slots=True)
class RoundTrip:
    """The work of one commit: settle, admit, scan, notify and claim, or some of these."""

    batch: VerdictBatch | None = None
    keys: FreedKeys = field(default_factory=FreedKeys)
    plan: ClaimPlan | None = None
    scan: Statement[Lanes] | None = None
    """Finds the lanes that have ready jobs, if the plan says so."""
    limits: LimitNews = field(default_factory=LimitNews)

    def divide(self) -> RoundTrip | None:
        """Take out the verdicts, and return them as a round trip of their own that can be sent in
        parallel. Return None if something else in this round trip depends on them.

        Verdicts that end jobs without a key or limit free nothing that the claim could use. Those that
        move a job to its next step or attempt draw a seq: a claim in parallel could read past it.
        """
        batch, plan = self.batch, self.plan
        if batch is None or batch.advance or batch.requeue or batch.careful:
            return None
        if plan is None or not plan.shares or plan.limits or self.keys or self.limits:
            return None
        self.batch = None
        return RoundTrip(batch)

    async def send(
        self, connection: EngineConnection, worker_id: int, now: datetime | None
    ) -> Answers:
        """Run it in one transaction, and return the answers. Nothing of it holds if this raises."""
        pipeline, target = _Pipeline(), connection.target
        settled = [pipeline.add(one) for one in self._settling(target, worker_id, now)]
        admission = self._admit(pipeline, target, now)
        lanes = None if self.scan is None else pipeline.add(self.scan)
        in_force = None if self.scan is None else pipeline.add(controls.read(now))
        if self.limits.opened:
            pipeline.add(controls.notify_open(target, self.limits.opened))
        if self.limits.changed and worker_id:
            # A claim that was under way when the limit was set is over. Its jobs are visible now.
            pipeline.add(controls.mark_limited(worker_id))
        locked = self._lock_limits(pipeline, now)
        claims = self._claim(pipeline, worker_id, now)
        await pipeline.run(connection)
        return Answers(
            not_settled={job: why for one in settled for job, why in one.answer.items()},
            admission=None if admission is None else admission.answer,
            claims=[] if claims is None else claims.answer,
            limits=[] if locked is None else locked.answer,
            lanes=None if lanes is None else lanes.answer,
            controls=None if in_force is None else in_force.answer,
        )

    def _settling(
        self, target: Target, worker_id: int, now: datetime | None
    ) -> list[Statement[NotSettled]]:
        batch = self.batch
        if batch is None:
            return []
        statements: list[Statement[NotSettled]] = []
        if batch.finish:
            statements.append(jobs.finish(target, batch.finish, now, careful=batch.careful))
        if batch.advance:
            statements.append(jobs.advance(target, batch.advance, now))
        if batch.requeue:
            statements.append(jobs.requeue(target, worker_id, batch.requeue, now))
        return statements

    def _admit(
        self, pipeline: _Pipeline, target: Target, now: datetime | None
    ) -> _Asked[Admission] | None:
        if not self.keys.in_commit:
            return None
        pipeline.add(jobs.lock_keys(self.keys.in_commit))
        return pipeline.add(jobs.admit(target, self.keys.in_commit, now))

    def _claim(
        self, pipeline: _Pipeline, worker_id: int, now: datetime | None
    ) -> _Asked[list[Claim] | None] | _Asked[list[Claim]] | None:
        plan = self.plan
        if plan is None or not plan.shares:
            return None
        if plan.plain:
            return pipeline.add(jobs.claim_plain(worker_id, plan.shares, now))
        return pipeline.add(jobs.claim(worker_id, plan.shares, now))

    def _lock_limits(
        self, pipeline: _Pipeline, now: datetime | None
    ) -> _Asked[list[LockedLimit]] | None:
        plan = self.plan
        if plan is None or not plan.shares or not plan.limits:
            return None
        queues, tasks = _by_kind(plan.limits)
        locked = pipeline.add(controls.lock(queues, tasks, now))
        if plan.from_start:
            # A second statement, because its snapshot must be younger than the locks.
            return pipeline.add(controls.lock(queues, tasks, now, counting=True))
        return locked


class _Asked(Generic[R]):
    """A statement that was added to a pipeline. Its answer is there when the pipeline has run."""

    answer: R


class _Pipeline:
    """Statements that are sent together."""

    def __init__(self) -> None:
        self._statements: list[Statement[Any]] = []
        self._asked: list[_Asked[Any]] = []

    def add(self, statement: Statement[R]) -> _Asked[R]:
        asked = _Asked[R]()
        self._statements.append(statement)
        self._asked.append(asked)
        return asked

    async def run(self, connection: EngineConnection) -> None:
        answers = await connection.run_all(*self._statements)
        for asked, answer in zip(self._asked, answers, strict=True):
            asked.answer = answer


def _by_kind(limits: set[LimitName]) -> tuple[list[str], list[str]]:
    """Return the queues and the tasks of these limits."""
    return (
        sorted(name for kind, name in limits if kind == "queue"),
        sorted(name for kind, name in limits if kind == "task"),
    )
