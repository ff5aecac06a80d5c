"""enqueue_jobs with unique keys: one job has the key, and everybody else learns which."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway.store.documents import NewJob
from headway.store.statements import fleet, jobs
from tests.store.aside import Aside
from tests.store.store import NOW, Store, ask, engine_connection, new_job, shares


def _job(policy: str = "skip", **fields: Any) -> NewJob:
    return new_job(**{"unique_key": "u", "on_taken": policy, **fields})


def _enqueue(store: Store, *made: NewJob) -> dict[str, str]:
    """Return the holders of the keys of jobs that were not made."""
    return store.run(jobs.enqueue(store.target, made, store.now))


def _taken(store: Store, *made: NewJob) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as refused:
        _enqueue(store, *made)
    assert refused.value.sqlstate == "HW001"
    return refused.value


def test_skip_makes_one_and_names_it_to_the_others(store: Store) -> None:
    first, second, elsewhere, other = _job(), _job(), _job(task="other"), _job(unique_key="v")
    assert _enqueue(store, first) == {}
    before = store.everything()
    with store.listening() as heard:
        assert _enqueue(store, second) == {second.id: first.id}
        assert heard() == []
    assert store.everything() == before, "the one that is there stays as it is"
    assert _enqueue(store, elsewhere, other) == {}, "a key is of its task"


def test_reject_refuses_and_names_the_holder(store: Store) -> None:
    first, second = _job("reject"), _job("reject")
    assert _enqueue(store, first) == {}
    before = store.everything()
    error = _taken(store, new_job(), second)
    assert error.diag.message_detail == first.id
    assert first.id in (error.diag.message_primary or "")
    assert store.everything() == before, "none of the call, also of those before it"


@pytest.mark.parametrize("policy", ["skip", "reject"])
def test_an_unfinished_job_has_its_key_to_its_end(store: Store, worker: int, policy: str) -> None:
    (claim,) = [store.held(worker, unique_key="u", on_taken=policy)]

    def is_taken() -> bool:
        if policy == "skip":
            return bool(_enqueue(store, _job()))
        return _taken(store, _job(policy)).diag.message_detail == claim.id

    assert is_taken()
    store.settle(claim, "retry", delay=5)
    assert is_taken()
    store.run(jobs.revive(store.target, UUID(claim.id), None, store.now))
    (claim,) = store.claim(worker)
    store.settle(claim, "fail")
    assert _enqueue(store, _job(policy)) == {}


def test_a_waiting_job_has_its_key_until_it_is_claimed(store: Store, worker: int) -> None:
    first, second, third = (_job(until_claimed=True) for _ in range(3))
    assert _enqueue(store, first) == {}
    assert _enqueue(store, second) == {second.id: first.id}
    (claim,) = store.claim(worker)
    assert _enqueue(store, second) == {}, "one may wait while another runs"
    assert _enqueue(store, third) == {third.id: second.id}
    store.settle(claim, "retry")
    assert store.states(first.id) == ["ready"], "it is not waiting for its first time any more"
    assert store.count("job") == 2


def test_a_key_of_a_period_is_taken_whatever_becomes_of_the_job(store: Store) -> None:
    worker = store.register(lease=1_000)
    first, second, third = (_job(period=60.0) for _ in range(3))
    assert _enqueue(store, first) == {}
    (claim,) = store.claim(worker)
    store.settle(claim, "succeed")
    store.advance(59.999)
    assert _enqueue(store, second) == {second.id: first.id}
    assert _taken(store, _job("reject", period=60.0)).diag.message_detail == first.id
    store.advance(0.001)
    assert _enqueue(store, third) == {}
    assert _enqueue(store, second) == {second.id: third.id}, "a new period has begun"
    assert store.row(third.id)["unique_key"] is None, "the period alone decides"


def test_a_period_that_is_over_is_forgotten(store: Store) -> None:
    _enqueue(store, _job(period=60.0), _job(period=90.0, unique_key="v"))
    store.advance(60)
    store.run(fleet.clean_up(store.now))
    assert store.one("select key, until from unique_period") == {
        "key": "v",
        "until": NOW + timedelta(seconds=90),
    }


@pytest.mark.parametrize(
    "fields",
    [{}, {"until_claimed": True}, {"period": 60.0}],
    ids=["unfinished", "waiting", "period"],
)
@pytest.mark.parametrize("policy", ["skip", "reject"])
def test_g3_a_repetition_with_the_same_ids_makes_nothing_new(
    store: Store, policy: str, fields: dict[str, Any]
) -> None:
    """The reply was lost: the job with the key is the same one."""
    made = [_job(policy, **fields), new_job(), _job(policy, unique_key="v", **fields)]
    _enqueue(store, *made)
    before = store.everything()
    assert _enqueue(store, *made) == {}
    assert store.everything() == before
    assert store.count("job") == 3


def test_g3_a_repetition_of_what_has_ended_is_withdrawn(store: Store, worker: int) -> None:
    first = _job()
    _enqueue(store, first)
    (claim,) = store.claim(worker)
    store.settle(claim, "succeed")
    before = store.everything()
    with store.conn.transaction():
        assert _enqueue(store, first) == {}
        assert store.run(jobs.withdraw([first.id])) == 1
    assert store.everything() == before


def test_of_two_with_one_key_in_one_call_the_first_is_made(store: Store) -> None:
    made = [_job(input={"n": n}) for n in range(3)]
    assert _enqueue(store, *made) == {made[1].id: made[0].id, made[2].id: made[0].id}
    _taken(store, _job("reject", unique_key="v"), _job("reject", unique_key="v"))


def test_places_in_a_lane_are_those_of_the_call_whatever_the_keys(store: Store) -> None:
    made = [_job(unique_key=key) for key in ("c", "a", "d", "b")]
    _enqueue(store, *made)
    order = [str(row["id"]) for row in store.rows("select id from job order by seq")]
    assert order == [job.id for job in made]


# -- under concurrent transactions ----------------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, {"period": 60.0}], ids=["unfinished", "period"])
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
def test_who_comes_second_waits_for_the_first_and_then_knows(
    store: Store, fields: dict[str, Any], commits: bool
) -> None:
    first, second = _job(**fields), _job(**fields)
    with engine_connection(store.dsn) as conn, conn.transaction(force_rollback=not commits):
        store.run(jobs.enqueue(store.target, [first], store.now), conn)
        waiting = Aside(store, jobs.enqueue(store.target, [second], store.now))
        waiting.wait_until_it_waits()
    assert waiting.answer() == ({second.id: first.id} if commits else {})
    assert [str(row["id"]) for row in store.rows("select id from job")] == [
        first.id if commits else second.id
    ]


def test_keys_given_in_any_order_never_make_two_callers_wait_for_each_other(store: Store) -> None:
    """Taken in the order of the keys: the second stands before the first key with nothing in hand."""
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(jobs.enqueue(store.target, [_job(unique_key="a")], store.now), conn)
        backwards = [_job(unique_key=key) for key in ("b", "a")]
        waiting = Aside(store, jobs.enqueue(store.target, backwards, store.now))
        waiting.wait_until_it_waits()
        assert store.run(jobs.enqueue(store.target, [_job(unique_key="b")], store.now), conn) == {}
    assert set(waiting.answer()) == {job.id for job in backwards}


# -- replace --------------------------------------------------------------------------------------


def _replace(store: Store, **fields: Any) -> tuple[NewJob, NewJob]:
    """A job that waits, and another that replaces it."""
    first = _job("replace", until_claimed=True)
    _enqueue(store, first)
    second = _job("replace", until_claimed=True, **fields)
    assert _enqueue(store, second) == {second.id: first.id}
    assert store.live(second.id) is None
    return first, second


def test_replace_gives_the_waiting_job_the_new_input_and_keeps_its_place(store: Store) -> None:
    first = _job("replace", until_claimed=True, input={"n": 1}, headers={"h": "1"}, ttl=60.0)
    _enqueue(store, first)
    before = store.row(first.id)
    store.advance(7)
    second = _job("replace", until_claimed=True, input={"n": 2}, max_attempts=9)
    with store.listening() as heard:
        assert _enqueue(store, second) == {second.id: first.id}
        assert heard() == ["ready 0 q"]
    row = store.row(first.id)
    assert {name: row[name] for name in row if row[name] != before[name]} == {
        "input": {"n": 2},
        "headers": None,
        "max_attempts": 9,
        "run_at": NOW + timedelta(seconds=7),
        "expires_at": None,
    }


@pytest.mark.parametrize(
    ("fields", "state", "said"),
    [
        ({"delay": 60.0}, "s", ["later"]),
        ({"priority": 4}, "r", ["ready 4 q"]),
        ({"queue": "mail"}, "r", ["ready 0 mail"]),
        ({"key": "k"}, "b", ["blocked"]),
        ({"key": "k", "delay": 60.0}, "s", ["later"]),
    ],
)
def test_replace_moves_the_job_to_where_the_new_one_would_be(
    store: Store, fields: dict[str, Any], state: str, said: list[str]
) -> None:
    first = _job("replace", until_claimed=True)
    _enqueue(store, first)
    between = store.enqueue()
    with store.listening() as heard:
        second = _job("replace", until_claimed=True, **fields)
        assert _enqueue(store, second) == {second.id: first.id}
        assert heard() == said
    row = store.row(first.id)
    assert row["state"] == state
    assert row["seq"] > store.row(between)["seq"], "at the tail of another lane or line"
    assert row == row | {
        name: fields[name] for name in ("priority", "queue", "key") if name in fields
    }


def test_replacing_a_scheduled_job_with_one_for_now_makes_it_ready(store: Store) -> None:
    first = _job("replace", until_claimed=True, delay=60.0)
    _enqueue(store, first)
    between = store.enqueue()
    second = _job("replace", until_claimed=True)
    assert _enqueue(store, second) == {second.id: first.id}
    row = store.row(first.id)
    assert (row["state"], row["run_at"]) == ("r", NOW)
    assert row["seq"] > store.row(between)["seq"]


@pytest.mark.parametrize(
    ("fields", "state", "holds", "said"),
    [
        ({"key": "k"}, "r", True, ["ready 0 q"]),
        ({"key": "other"}, "b", False, ["blocked", "room"]),
        ({}, "r", False, ["ready 0 q", "room"]),
        ({"key": "k", "delay": 60.0}, "s", False, ["later", "room"]),
    ],
)
def test_replacing_a_job_that_has_room_keeps_it_or_says_that_it_is_free(
    store: Store, fields: dict[str, Any], state: str, holds: bool, said: list[str]
) -> None:
    first = _job("replace", until_claimed=True, key="k")
    _enqueue(store, first)
    store.admit("k")
    behind = store.enqueue(key="k")
    with store.listening() as heard:
        second = _job("replace", until_claimed=True, **fields)
        assert _enqueue(store, second) == {second.id: first.id}
        assert sorted(heard()) == said
    row = store.row(first.id)
    assert (row["state"], row["holds"]) == (state, holds)
    assert store.admit("k") == (0 if holds else 1)
    assert store.row(behind)["holds"] is not holds


def test_replace_takes_the_step_and_what_a_flow_carries(store: Store) -> None:
    first, _ = _replace(store, step="two", carried=None, options={"timeout": 1.0})
    row = store.row(first.id)
    assert (row["step"], row["options"]) == ("two", {"timeout": 1.0})


def test_what_runs_already_is_not_replaced_but_followed(store: Store, worker: int) -> None:
    first, second = (_job("replace", until_claimed=True, input={"n": n}) for n in (1, 2))
    _enqueue(store, first)
    store.claim(worker)
    assert _enqueue(store, second) == {}
    assert store.row(first.id)["input"] == {"n": 1}
    assert store.states(second.id) == ["ready"]


def test_a_key_that_a_running_job_has_to_its_end_cannot_be_replaced(
    store: Store, worker: int
) -> None:
    """Made by a version of the task that had another policy."""
    claim = store.held(worker, unique_key="u", on_taken="skip")
    error = _taken(store, _job("replace", until_claimed=True))
    assert error.diag.message_detail == claim.id


def test_the_last_replacement_in_one_call_wins(store: Store) -> None:
    made = [_job("replace", until_claimed=True, input={"n": n}) for n in range(3)]
    assert set(_enqueue(store, *made)) == {made[1].id, made[2].id}
    assert store.row(made[0].id)["input"] == {"n": 2}


def test_a_job_that_is_claimed_while_it_is_to_be_replaced_is_followed(
    store: Store, worker: int
) -> None:
    first, second = _job("replace", until_claimed=True), _job("replace", until_claimed=True)
    _enqueue(store, first)
    with engine_connection(store.dsn) as conn, conn.transaction():
        assert len(store.run(jobs.claim(worker, shares([ask()], 1), store.now), conn)) == 1
        waiting = Aside(store, jobs.enqueue(store.target, [second], store.now))
        waiting.wait_until_it_waits()
    assert waiting.answer() == {}
    assert (store.states(first.id), store.states(second.id)) == (["running"], ["ready"])
