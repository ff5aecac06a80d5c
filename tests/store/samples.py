"""One statement of every kind, as the engine and the commands make them: for planning them all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from headway.core.definition import Definition
from headway.core.ids import new_id, new_ids
from headway.core.limits import Limit
from headway.core.retry import Retry
from headway.core.state import State
from headway.store import blockers
from headway.store.connections import identity
from headway.store.connections.connect import Target
from headway.store.connections.identity import Identity
from headway.store.documents import PlainShape
from headway.store.statement import Statement
from headway.store.statements import (
    bulk,
    checks,
    controls,
    counts,
    fleet,
    groups,
    inspect,
    jobs,
    plain,
    pulls,
    schedules,
    testing,
)
from headway.store.statements.jobs import Settled
from tests.store.store import NOW, TASK, a_claim, ask, new_job, shares, verdict

# The options that `headway job enqueue` leaves open.
_OPTIONS: dict[str, Any] = dict.fromkeys(
    ("queue", "delay", "at", "priority", "ttl", "headers", "concurrency_key", "limit", "ordered")
) | {"unique_key": None, "on_taken": "skip", "limit_key": None, "no_keys": False}


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


_SCHEDULE = schedules.Put(
    "nightly", TASK, "@daily", new_job(), None, "one", 100, "allow", 0.0, None, None
)
_DUE = schedules.DueRow("nightly", "@daily", "one", 100, 0.0, NOW, NOW, None, 1)
_OCCURRENCE = schedules.Occurrence(str(new_id()), "2026-01-01T00:00:00Z", None)


_SHAPE = PlainShape("q", TASK, "", 0, 5)


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
        jobs.enqueue_in(target, [new_job()], now, Identity("db", "0", "")),
        plain.enqueue_one(_SHAPE, str(new_id()), b"{}"),
        plain.enqueue_one_in(target, _SHAPE, str(new_id()), b"{}", Identity("db", "0", "")),
        plain.enqueue_alike(_SHAPE, new_ids(batch), [b"{}"] * batch),
        plain.notify_lanes("channel", [("q", 5, "r"), ("q", 0, "r"), ("", 0, "s")]),
        jobs.withdraw(ids),
        jobs.claim(1, shares([ask(priority=p) for p in (5, 0, -5)], batch), now),
        jobs.claim_plain(1, shares([ask(priority=p) for p in (5, 0, -5)], batch), now),
        jobs.finish(target, done, now),
        jobs.advance(target, onward, now),
        jobs.requeue(target, 1, again, now),
        jobs.lock_keys(keys),
        jobs.unadmit(keys, now),
        jobs.admit(target, keys, now),
        checks.unfinished(["q"], ids[0], batch),
        checks.schedule_calls(["q"], batch),
        groups.enqueue(target, [new_job() for _ in range(batch)], new_job(), 0, now),
        groups.enqueue_in(target, [new_job()], new_job(), 0, now, Identity("db", "0", "")),
        groups.gather(target, ids, now),
        groups.gatherable(ids[0], batch),
        groups.members(one, 0, batch),
        groups.group(one),
        jobs.promote(target, now - timedelta(seconds=9), batch, now),
        jobs.cancel(target, ids, now),
        jobs.expire(target, batch, now),
        jobs.rescue(target, batch, now),
        jobs.revive(target, one, None, now),
        jobs.retry(ids),
        jobs.enqueue_by_name(new_id(), TASK, b"{}", _OPTIONS),
        jobs.edit(one, "", b"{}"),
        jobs.progress([(claim, {"percent": 1}) for claim in claims]),
        jobs.lanes(["q", "other"]),
        inspect.tasks(),
        jobs.all_lanes(),
        jobs.held(claims),
        jobs.joined(0, batch),
        jobs.lines("", batch, now),
        jobs.orphans(1, claims, batch),
        jobs.asked(batch),
        jobs.keys_of(ids),
        jobs.idle(["q"], [TASK], now),
        jobs.outcome(one),
        jobs.await_end(one, now),
        fleet.register("host:1", "0", 10, ["q"], [TASK], 30.0, now),
        fleet.heartbeat(1, 30.0, now),
        fleet.note_trouble(1, "why"),
        fleet.retire(1, now),
        testing.broken(),
        testing.enqueued(TASK),
        testing.next_moment(now, schedules=True),
        fleet.drain(target, 1, now),
        fleet.clean_up(now),
        fleet.declare([_DEFINITION]),
        fleet.partitions(now),
        controls.pause(target, "queue", "q", actor="ada", reason="why", until=60.0, now=now),
        controls.resume(target, "queue", "q", now),
        controls.read(now),
        controls.lock(["q"], [TASK], now),
        controls.set_limit(target, "queue", "q", Limit(concurrency=5, rate="1/s"), "ada", now),
        controls.reset_limit(target, "queue", "q"),
        controls.declare(target, [_DEFINITION]),
        controls.notify_open(target, [("queue", "q"), ("task", TASK)]),
        controls.mark_limited(1),
        inspect.job(one),
        inspect.jobs(states=[State.FAILED], task=TASK, queue="q", before=one),
        inspect.count(states=[State.FAILED], task=TASK, queue="q"),
        inspect.attempts(one),
        inspect.explain(one),
        inspect.successors(one),
        inspect.errors(TASK, now, batch),
        inspect.failures(now, None),
        inspect.matching(task=TASK, step="", since=now, pattern="o+ps", limit=batch),
        inspect.queues(now),
        inspect.metrics(None, now),
        counts.tally(batch, now),
        counts.counted(0, batch),
        counts.job_counts({("q", "r"): batch}, now),
        bulk.purge(target, "q", None, now)(UUID(int=0), None),
        bulk.transfer(target, "q", "other", TASK, now)(UUID(int=0), now),
        bulk.waiting("q", TASK),
        bulk.busy("q"),
        pulls.pull("q", batch, 30.0, [TASK]),
        pulls.extend(one, 1, 30.0),
        pulls.complete(one, 1, b"1"),
        pulls.fail(one, 1, "why", True, None),
        pulls.release(one, 1),
        pulls.snooze(one, 1, 5.0),
        schedules.put(target, [_SCHEDULE], owner="", declared=True, now=now),
        schedules.due(batch, now),
        schedules.fire(target, _DUE, [_OCCURRENCE], until=now, next_at=now, now=now),
        schedules.schedules(None, now),
        schedules.pause("nightly", actor="ada", reason="why", now=now),
        schedules.resume(target, "nightly", now),
        schedules.remove("nightly"),
        schedules.run(target, "nightly", one, now),
        schedules.clean("", [TASK], ["nightly"], stale=True, now=now),
        inspect.workers(now),
        inspect.stranded(now),
        inspect.server(),
        identity.read(),
        blockers.read(10.0),
        blockers.waits(now),
    ]
    return {statement.name: statement for statement in made}
