"""The consequences of an end: how long a job is kept, its dead letter, the task that is called."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from headway.store.rows import Claim
from headway.store.statements import bulk, fleet, inspect, jobs
from tests.store.store import NOW, Store, ask, new_job

_ENDS = ["succeed", "fail", "cancel", "cancel waiting", "expire", "lose", "lose cancelled"]


def _end(store: Store, worker: int, how: str, **fields: Any) -> UUID:
    """A job that came to its end in one of these ways, now."""
    if how in ("cancel waiting", "expire"):
        job_id = store.enqueue(ttl=60.0, **fields)
        if how == "expire":
            store.rows("update job set expires_at = %s returning 1", store.now)
            assert store.run(jobs.expire(store.target, 10, store.now)) == 1
        else:
            store.cancel(job_id)
        return job_id
    claim = store.held(worker, options={"retry": {"max_crashes": 1}}, **fields)
    if how in ("cancel", "lose cancelled"):
        assert store.cancel(claim.id) == "asked"
    if how.startswith("lose"):
        store.rows("update worker set expires_at = %s where id = %s returning 1", store.now, worker)
        assert store.rescue() == (0, 1)
    else:
        assert store.settle(claim, how)  # type: ignore[arg-type]
    return UUID(claim.id)


def _kept(store: Store, job_id: UUID) -> timedelta | None:
    row = store.archived(job_id)
    return None if row is None else row["kept_until"] - NOW


@pytest.mark.parametrize("how", _ENDS)
def test_a_task_nobody_declared_is_kept_as_usual(store: Store, worker: int, how: str) -> None:
    job_id = _end(store, worker, how)
    assert _kept(store, job_id) == timedelta(days=7 if how == "succeed" else 30)


@pytest.mark.parametrize("how", _ENDS)
def test_a_task_is_kept_for_as_long_as_it_declares(store: Store, worker: int, how: str) -> None:
    store.declare(keep_succeeded="90 minutes", keep_failed="3 days")
    job_id = _end(store, worker, how)
    assert _kept(store, job_id) == (
        timedelta(minutes=90) if how == "succeed" else timedelta(days=3)
    )


@pytest.mark.parametrize("how", _ENDS)
def test_a_job_that_is_not_kept_is_gone_at_once_and_a_waiting_caller_is_notified(
    store: Store, worker: int, how: str
) -> None:
    store.declare(keep_succeeded=None, keep_failed=None)
    with store.listening(store.target.done_channel) as heard:
        job_id = _end(store, worker, how, key="k")
        assert [word for word in heard() if word != "failed"] == []
    assert store.states(job_id) == []
    assert store.count("archive") == 0
    second = store.enqueue(key="k")
    assert store.admit("k") == 1, "its room is free"
    assert store.row(second)["holds"]


@pytest.mark.parametrize("how", [*_ENDS, "purge"])
def test_r8_a_repeated_enqueue_of_a_job_that_was_not_kept_makes_nothing_new(
    store: Store, worker: int, how: str
) -> None:
    store.declare(keep_succeeded=None, keep_failed=None)
    repeated = new_job()
    if how == "purge":
        store.run(jobs.enqueue(store.target, [repeated], store.now))
        store.run(bulk.purge(store.target, "q", None, store.now)(UUID(int=0), None))
    else:
        assert str(_end(store, worker, how, id=repeated.id)) == repeated.id
    before = store.everything()
    with store.conn.transaction():
        store.run(jobs.enqueue(store.target, [repeated], store.now))
        assert store.run(jobs.withdraw([repeated.id])) == 1
    assert store.everything() == before
    store.advance(3599)
    store.run(fleet.clean_up(store.now))
    assert store.count("unkept") == 1
    store.advance(1)
    store.run(fleet.clean_up(store.now))
    assert store.count("unkept") == 0


def test_r8_a_job_that_is_kept_is_found_in_the_archive_alone(store: Store, worker: int) -> None:
    for how in _ENDS[:-2]:
        _end(store, worker, how)
    assert store.count("archive") == len(_ENDS) - 2
    assert store.count("unkept") == 0


def test_what_is_not_kept_leaves_no_steps_behind_but_its_errors(store: Store, worker: int) -> None:
    """A listener for failures must be notified; see failures.sql."""
    store.declare("order", keep_succeeded=None, keep_failed=None)
    done, failed = (store.held(worker, task="order", step="one", queue=q) for q in ("a", "b"))
    store.settle(done, "succeed")
    store.settle(failed, "fail", error="why")
    assert store.attempts(done.id) == []
    (row,) = store.attempts(failed.id)
    assert (row["outcome"], row["error"]["message"]) == ("f", "why")


def test_successes_may_go_while_failures_stay(store: Store, worker: int) -> None:
    store.declare(keep_succeeded=None, keep_failed="1 day")
    assert _kept(store, _end(store, worker, "succeed")) is None
    assert _kept(store, _end(store, worker, "fail")) == timedelta(days=1)


def test_a_flow_is_kept_as_the_flow_declares_whatever_its_step_does(
    store: Store, worker: int
) -> None:
    store.declare("order", keep_succeeded="2 days")
    store.declare("order/one", keep_succeeded="9 days")
    job_id = _end(store, worker, "succeed", task="order", step="one")
    assert _kept(store, job_id) == timedelta(days=2)


# -- the queue of the dead ------------------------------------------------------------------------


def _in(store: Store, queue: str) -> list[dict[str, Any]]:
    return store.rows("select *, state::text as state from job where queue = %s", queue)


@pytest.mark.parametrize("how", ["fail", "lose"])
def test_a_failed_job_goes_to_the_queue_of_the_dead_as_a_new_one(
    store: Store, worker: int, how: str
) -> None:
    store.declare(dead_letter="dead", priority=3, max_attempts=2)
    with store.listening() as heard:
        job_id = _end(store, worker, how, input={"k": 1}, headers={"h": "v"})
        assert "ready 3 dead" in heard()
    (letter,) = _in(store, "dead")
    assert letter["id"] != job_id
    assert letter == letter | {
        "task": "resize",
        "state": "r",
        "input": {"k": 1},
        "headers": {"h": "v", "dead-letter-of": str(job_id)},
        "priority": 3,
        "max_attempts": 2,
        "attempt": 0,
        "created_at": NOW,
    }
    assert store.states(job_id) == ["failed"], "the failed one stays, with its story"


@pytest.mark.parametrize("how", ["succeed", "cancel", "cancel waiting", "expire", "lose cancelled"])
def test_no_other_end_makes_a_letter_or_a_call(store: Store, worker: int, how: str) -> None:
    store.declare(dead_letter="dead", on_failure="alert")
    _end(store, worker, how)
    assert store.count("job") == 0


def test_a_letter_that_fails_in_its_queue_makes_no_other(store: Store, worker: int) -> None:
    store.declare(dead_letter="dead", max_attempts=1)
    _end(store, worker, "fail")
    (letter,) = store.claim(worker, ask("dead"))
    assert store.settle(letter, "fail")
    assert _in(store, "dead") == []
    assert store.count("archive") == 2


def test_a_flow_dies_at_the_step_where_it_failed_with_what_it_carried(
    store: Store, worker: int
) -> None:
    store.declare("order", dead_letter="dead")
    claim = store.held(worker, task="order", step="one", options={"timeout": 5.0})
    store.settle(claim, "advance", step="two", input={"m": 2}, carried={"total": 3})
    (second,) = store.claim(worker, ask(tasks=["order/two"]))
    store.settle(second, "fail")
    (letter,) = _in(store, "dead")
    assert (letter["step"], letter["input"], letter["carried"], letter["options"]) == (
        "two",
        {"m": 2},
        {"total": 3},
        {"timeout": 5.0},
    )


def test_a_verdict_that_came_too_late_makes_no_letter(store: Store, worker: int) -> None:
    store.declare(dead_letter="dead", on_failure="alert")
    claim = store.held(worker)
    store.settle(claim, "release")
    assert not store.settle(claim, "fail")
    assert store.count("job") == 1


# -- the task that is called ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fail", "lose"])
def test_a_failure_calls_the_task_that_is_declared_with_it(
    store: Store, worker: int, how: str
) -> None:
    store.declare(on_failure="alert")
    store.declare("alert", queue="alerts", priority=9, max_attempts=4)
    job_id = _end(store, worker, how, input={"k": 1}, headers={"h": "v"})
    (call,) = _in(store, "alerts")
    error = store.archived(job_id)["error"]  # type: ignore[index]
    assert call == call | {
        "task": "alert",
        "step": "",
        "priority": 9,
        "max_attempts": 4,
        "headers": {"failure-of": str(job_id)},
        "input": {
            "failure": {
                "job_id": str(job_id),
                "task": "resize",
                "step": "",
                "queue": "q",
                "attempt": 1,
                "failed_at": "2040-01-01T12:00:00.000000Z",
                "error": error,
                "input": {"k": 1},
                "headers": {"h": "v"},
            }
        },
    }


def test_a_flow_may_be_called_and_starts_at_its_first_step(store: Store, worker: int) -> None:
    store.declare(on_failure="mourn")
    store.declare("mourn", queue="alerts", first_step="weep")
    _end(store, worker, "fail")
    (call,) = _in(store, "alerts")
    assert (call["task"], call["step"]) == ("mourn", "weep")


def test_a_task_that_nobody_declared_yet_is_called_all_the_same(store: Store, worker: int) -> None:
    store.declare(on_failure="alert")
    _end(store, worker, "fail")
    (call,) = _in(store, "default")
    assert (call["task"], call["priority"], call["max_attempts"]) == ("alert", 0, 20)


def test_a_call_that_fails_calls_nobody(store: Store, worker: int) -> None:
    """Two tasks that name each other, or one that names itself, would go on for ever."""
    store.declare(on_failure="resize")
    claim = store.held(worker, max_attempts=1)
    store.settle(claim, "fail")
    (call,) = store.claim(worker)
    assert call.id != claim.id
    assert store.settle(call, "fail")
    assert store.count("job") == 0


def test_successors_are_the_jobs_that_a_failure_made(store: Store, worker: int) -> None:
    """Letters and calls are made by the database's clock, and so must this failure be."""
    store.declare(dead_letter="dead", on_failure="alert")
    store.rows("update worker set expires_at = 'infinity' returning 1")
    claim = store.held(worker, max_attempts=1)
    other = store.held(worker, max_attempts=1)
    for one in (claim, other):
        _fail_now(store, one)
    made = store.run(inspect.successors(UUID(claim.id)))
    assert sorted((row.task, row.queue, row.state) for row in made) == [
        ("alert", "default", "ready"),
        ("resize", "dead", "ready"),
    ]
    assert {row.id for row in made}.isdisjoint(
        row.id for row in store.run(inspect.successors(UUID(other.id)))
    )


def _fail_now(store: Store, claim: Claim) -> None:
    now, store.now = store.now, None  # type: ignore[assignment]
    assert store.settle(claim, "fail")
    store.now = now
