"""One statement of every kind, as the engine and the commands make them: for planning them all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from headway.core.config import Retention
from headway.core.ids import new_id
from headway.core.state import State
from headway.store import fleet, inspect, jobs
from headway.store.connect import Target
from headway.store.jobs import Settled
from headway.store.rows import Claim
from headway.store.statement import Statement
from tests.store.store import NOW, TASK, ask, new_job, verdict


def samples(
    target: Target, *, batch: int = 100, ids: list[str] | None = None
) -> dict[str, Statement[Any]]:
    """By the name of their file. `ids` are the jobs that they are about, made up if not given."""
    ids = ids or [str(new_id()) for _ in range(batch)]
    claims = [Claim(id_, 1, TASK, "", 1, 3, "q", 0, 1, "{}", None, None) for id_ in ids]
    done = [Settled(claim, verdict("succeed", result=1)) for claim in claims]
    again = [Settled(claim, verdict("retry", delay=5)) for claim in claims]
    one, now = UUID(ids[0]), NOW
    made: list[Statement[Any]] = [
        jobs.enqueue(target, [new_job() for _ in range(batch)], now),
        jobs.withdraw(ids),
        jobs.claim(1, [ask(priority=p) for p in (5, 0, -5)], batch, now),
        jobs.finish(target, done, now),
        jobs.requeue(target, 1, again, now),
        jobs.promote(target, now - timedelta(seconds=9), batch, now),
        jobs.cancel(target, one, now),
        jobs.expire(target, batch, now),
        jobs.rescue(target, batch, now),
        jobs.revive(target, one, now),
        jobs.progress([(claim, {"percent": 1}) for claim in claims]),
        jobs.lanes(["q", "other"]),
        jobs.held(claims),
        jobs.orphans(1, ids),
        jobs.idle(["q"], [TASK], now),
        jobs.outcome(one),
        jobs.await_end(one, now),
        fleet.register("host:1", "0", 10, ["q"], [TASK], 30.0, now),
        fleet.heartbeat(1, 30.0, now),
        fleet.retire(1, now),
        fleet.forget(now),
        fleet.partitions(Retention(), now),
        fleet.pause("q", "ada", "why", now),
        fleet.resume(target, "q"),
        inspect.job(one),
        inspect.jobs(states=[State.FAILED], task=TASK, queue="q", before=one),
        inspect.attempts(one),
        inspect.queues(now),
        inspect.workers(now),
        inspect.stranded(now),
        inspect.server(),
    ]
    return {statement.name: statement for statement in made}
