"""failures.sql, errors.sql and matching.sql: hearing of failures, each once, and finding them again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway.core.failure import Failure
from headway.store.statements import inspect, jobs
from headway.store.statements.jobs import Moment, Settled
from tests.store.store import NOW, Store, ask, engine_connection, verdict


def _read(store: Store, after: str | None, since: Moment = None) -> tuple[str, list[Failure]]:
    return store.run(inspect.failures(since, after))


def _fail(store: Store, worker: int, **fields: Any) -> str:
    claim = store.held(worker, max_attempts=1, **fields)
    assert store.settle(claim, "fail", error="why")
    return claim.id


def test_with_neither_a_moment_nor_a_snapshot_it_begins_from_now_on(
    store: Store, worker: int
) -> None:
    _fail(store, worker)
    snapshot, failed = _read(store, None)
    assert failed == []
    second = _fail(store, worker)
    _, failed = _read(store, snapshot)
    assert [str(failure.job_id) for failure in failed] == [second]


def test_from_a_moment_on(store: Store, worker: int) -> None:
    _fail(store, worker)
    store.advance(1)
    second = _fail(store, worker)
    third = _fail(store, worker)
    snapshot, failed = _read(store, None, NOW + timedelta(seconds=1))
    assert sorted(str(failure.job_id) for failure in failed) == sorted([second, third])
    assert _read(store, snapshot)[1] == [], "nothing twice"


def test_a_failure_says_everything_about_the_job(store: Store, worker: int) -> None:
    snapshot, _ = _read(store, None)
    job_id = _fail(store, worker, input={"k": 1}, headers={"h": "v"}, queue="mail")
    _, (failure,) = _read(store, snapshot)
    assert failure == Failure(
        job_id=UUID(job_id),
        task="resize",
        step="",
        queue="mail",
        attempt=1,
        failed_at=NOW,
        error={"type": "Oops", "message": "why"},
        input={"k": 1},
        headers={"h": "v"},
    )


def test_only_the_end_of_a_job_is_a_failure(store: Store, worker: int) -> None:
    snapshot, _ = _read(store, None)
    claim = store.held(worker)
    store.settle(claim, "retry")
    (claim,) = store.claim(worker)
    store.cancel(claim.id)
    assert store.settle(claim, "cancel")
    flow = store.held(worker, task="order", step="one")
    store.settle(flow, "advance")
    (flow,) = store.claim(worker, ask(tasks=["order/two"]))
    store.settle(flow, "succeed")
    assert _read(store, snapshot)[1] == []
    assert _read(store, None, NOW)[1] == []


def test_what_commits_late_is_not_lost_and_nothing_comes_twice(store: Store, worker: int) -> None:
    """Two failures whose transactions overlap the readings: one began first and commits last."""
    slow, quick = store.held(worker), store.held(worker)
    seen: list[str] = []

    def read(after: str) -> str:
        snapshot, failed = _read(store, after)
        seen.extend(str(failure.job_id) for failure in failed)
        return snapshot

    snapshot, _ = _read(store, None)
    settled = [Settled(slow, verdict("fail"))]
    with engine_connection(store.dsn) as conn:
        conn.execute("begin")
        assert store.run(jobs.finish(store.target, settled, store.now), conn) == {}
        snapshot = read(snapshot)
        assert seen == []
        store.settle(quick, "fail")
        snapshot = read(snapshot)
        assert seen == [quick.id]
        snapshot = read(snapshot)
        conn.execute("commit")
    snapshot = read(snapshot)
    assert seen == [quick.id, slow.id]
    read(snapshot)
    assert seen == [quick.id, slow.id]


def test_what_was_rolled_back_never_failed(store: Store, worker: int) -> None:
    claim = store.held(worker)
    snapshot, _ = _read(store, None)
    with engine_connection(store.dsn) as conn, conn.transaction(force_rollback=True):
        store.run(jobs.finish(store.target, [Settled(claim, verdict("fail"))], store.now), conn)
    assert _read(store, snapshot)[1] == []


def test_a_failure_is_streamed_also_when_the_job_is_not_kept_or_was_retried(
    store: Store, worker: int
) -> None:
    store.declare("gone", keep_failed=None)
    snapshot, _ = _read(store, None)
    gone = _fail(store, worker, task="gone", input={"k": 1})
    retried = _fail(store, worker, input={"k": 2})
    store.run(jobs.revive(store.target, UUID(retried), None, store.now))
    failed = {str(failure.job_id): failure for failure in _read(store, snapshot)[1]}
    assert set(failed) == {gone, retried}
    assert (failed[gone].input, failed[retried].input) == (None, {"k": 2})


def test_a_job_that_fails_again_is_streamed_again(store: Store, worker: int) -> None:
    snapshot, _ = _read(store, None)
    job_id = _fail(store, worker)
    store.run(jobs.revive(store.target, UUID(job_id), None, store.now))
    (claim,) = store.claim(worker)
    store.settle(claim, "fail")
    assert [str(failure.job_id) for failure in _read(store, snapshot)[1]] == [job_id, job_id]


@pytest.mark.parametrize("kind", ["fail", "succeed", "cancel"])
def test_listeners_are_notified_of_a_failure(store: Store, worker: int, kind: Any) -> None:
    claims = [store.held(worker), store.held(worker)]
    if kind == "cancel":
        store.run(jobs.cancel(store.target, [claim.id for claim in claims], store.now))
    settled = [Settled(claim, verdict(kind)) for claim in claims]
    with store.listening(store.target.done_channel) as heard:
        store.run(jobs.finish(store.target, settled, store.now))
        assert heard() == (["failed"] if kind == "fail" else []), "once for all of a statement"


# -- looking back ---------------------------------------------------------------------------------


def test_errors_are_the_newest_failures_oldest_first(store: Store, worker: int) -> None:
    ids = []
    for task in ("a", "b", "a", "a"):
        ids.append(_fail(store, worker, task=task))
        store.advance(1)

    def errors(task: str | None, since: Moment, limit: int) -> list[int]:
        found = store.run(inspect.errors(task, since, limit))
        return [ids.index(str(failure.job_id)) for failure in found]

    assert errors(None, None, 9) == [0, 1, 2, 3]
    assert errors(None, None, 2) == [2, 3]
    assert errors("a", None, 9) == [0, 2, 3]
    assert errors(None, NOW + timedelta(seconds=1), 9) == [1, 2, 3]


def _matching(store: Store, **by: Any) -> list[str]:
    given: dict[str, Any] = {"task": None, "step": None, "since": None, "pattern": None, "limit": 9}
    return [str(row.id) for row in store.run(inspect.matching(**given | by))]


def test_failed_jobs_are_found_by_task_step_moment_and_error(store: Store, worker: int) -> None:
    made: dict[str, str] = {}
    for name, task, step, message in (
        ("first", "mail", "", "Connection refused (by 10.0.0.1)"),
        ("second", "order", "one", "no such user"),
        ("third", "order", "two", "connection reset"),
    ):
        claim = store.held(worker, task=task, step=step)
        store.settle(claim, "fail", error=message)
        made[name] = claim.id
        store.advance(1)
    assert store.settle(store.held(worker, task="mail"), "succeed")
    cancelled = store.held(worker, task="mail")
    store.cancel(cancelled.id)
    assert store.settle(cancelled, "cancel")
    names = {job_id: name for name, job_id in made.items()}

    def found(**by: Any) -> list[str]:
        return [names[job_id] for job_id in _matching(store, **by)]

    assert found() == ["first", "second", "third"], "failed ones only, oldest first"
    assert found(limit=2) == ["first", "second"]
    assert found(limit=None) == ["first", "second", "third"]
    assert found(task="order") == ["second", "third"]
    assert found(task="order", step="two") == ["third"]
    assert found(since=NOW + timedelta(seconds=1)) == ["second", "third"]
    assert found(pattern="CONNECTION (refused|reset)") == ["first", "third"], "in any case"
    assert found(pattern="^oops: no such") == ["second"], "the type is part of what is searched"
    assert found(pattern=r"\(by 10\.0") == ["first"]
    assert found(pattern="connection", task="mail") == ["first"]


def test_a_pattern_that_is_none_is_refused_by_the_server(store: Store, worker: int) -> None:
    _fail(store, worker)
    with pytest.raises(psycopg.errors.InvalidRegularExpression):
        _matching(store, pattern="(")


def test_many_are_retried_in_one_statement_which_says_of_which(store: Store, worker: int) -> None:
    failed = [_fail(store, worker) for _ in range(3)]
    running = store.held(worker).id
    store.run(jobs.revive(store.target, UUID(failed[1]), None, store.now))
    assert store.run(jobs.retry([*failed, running])) == [failed[0], failed[2]]
    assert [store.states(job_id) for job_id in failed] == [["ready"]] * 3
