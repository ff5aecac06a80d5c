"""One statement of every kind, as the engine and the commands make them: for planning them all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from headway.core.definition import Definition
from headway.core.ids import new_id
from headway.core.retry import Retry
from headway.core.state import State
from headway.store import fleet, inspect, jobs
from headway.store.connect import Target
from headway.store.jobs import Settled
from headway.store.statement import Statement
from tests.store.store import NOW, TASK, a_claim, ask, new_job, verdict

# What `headway job enqueue` leaves open.
_OPTIONS: dict[str, Any] = dict.fromkeys(
    ("queue", "delay", "at", "priority", "ttl", "headers", "concurrency_key", "limit", "ordered")
) | {"unique_key": None, "on_taken": "skip"}


def _resize(n: int) -> None:
    """A task to be declared."""


_DEFINITION = Definition(
    name=TASK,
    function=_resize,
    queue="q",
    priority=0,
    retry=Retry(),
    timeout=None,
    ttl=None,
    executor="async",
    slots=None,
)


def samples(
    target: Target, *, batch: int = 100, ids: list[str] | None = None
) -> dict[str, Statement[Any]]:
    """By the name of their file. `ids` are the jobs that they are about, made up if not given."""
    ids = ids or [str(new_id()) for _ in range(batch)]
    claims = [a_claim(id_) for id_ in ids]
    done = [Settled(claim, verdict("succeed", result=1)) for claim in claims]
    again = [Settled(claim, verdict("retry", delay=5)) for claim in claims]
    onward = [Settled(claim, verdict("advance", key="k")) for claim in claims]
    keys = [f"key {number}" for number in range(10)]
    one, now = UUID(ids[0]), NOW
    made: list[Statement[Any]] = [
        jobs.enqueue(target, [new_job() for _ in range(batch)], now),
        jobs.withdraw(ids),
        jobs.claim(1, [ask(priority=p) for p in (5, 0, -5)], batch, now),
        jobs.finish(target, done, now),
        jobs.advance(target, onward, now),
        jobs.requeue(target, 1, again, now),
        jobs.lock_keys(keys),
        jobs.admit(target, keys),
        jobs.ring_room(target, keys),
        jobs.promote(target, now - timedelta(seconds=9), batch, now),
        jobs.cancel(target, one, now),
        jobs.expire(target, batch, now),
        jobs.rescue(target, batch, now),
        jobs.revive(target, one, None, now),
        jobs.retry(ids),
        jobs.enqueue_by_name(new_id(), TASK, b"{}", _OPTIONS),
        jobs.edit(one, "", b"{}"),
        jobs.progress([(claim, {"percent": 1}) for claim in claims]),
        jobs.lanes(["q", "other"]),
        jobs.held(claims),
        jobs.joined(0, batch),
        jobs.lines("", batch),
        jobs.orphans(1, ids),
        jobs.idle(["q"], [TASK], now),
        jobs.outcome(one),
        jobs.await_end(one, now),
        fleet.register("host:1", "0", 10, ["q"], [TASK], 30.0, now),
        fleet.heartbeat(1, 30.0, now),
        fleet.retire(1, now),
        fleet.forget(now),
        fleet.declare([_DEFINITION]),
        fleet.partitions(now),
        fleet.pause("q", "ada", "why", now),
        fleet.resume(target, "q"),
        inspect.job(one),
        inspect.jobs(states=[State.FAILED], task=TASK, queue="q", before=one),
        inspect.attempts(one),
        inspect.explain(one),
        inspect.successors(one),
        inspect.errors(TASK, now, batch),
        inspect.failures(now, None),
        inspect.matching(task=TASK, step="", since=now, pattern="o+ps", limit=batch),
        inspect.queues(now),
        inspect.workers(now),
        inspect.stranded(now),
        inspect.server(),
    ]
    return {statement.name: statement for statement in made}
