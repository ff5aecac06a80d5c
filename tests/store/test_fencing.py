"""Claims that a failover forgot, verdicts that nobody asked for, requests that are not lost (H1, G2)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from headway.core.verdict import Kind
from headway.store.rows import Claim
from headway.store.statements import jobs, pulls
from tests.store.store import Store, ask, counted, engine_connection, new_job

KINDS: list[Kind] = ["succeed", "fail", "cancel", "retry", "snooze", "release", "advance"]


def _forget(store: Store, claim: Claim) -> None:
    """Do what a failover does to a claim that was not replicated."""
    store.rows(
        "update job set state = 'r', claim = 0, attempt = attempt - 1, worker_id = null,"
        " claimed_at = null where id = %s returning 1",
        claim.id,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", [False, True])
def test_h1_a_claim_that_a_failover_forgot_is_never_current_again(
    store: Store, worker: int, kind: Kind, asked: bool
) -> None:
    old = store.held(worker)
    _forget(store, old)
    (new,) = store.claim(worker)
    assert (new.id, counted(new), new.attempt) == (old.id, counted(old), old.attempt)
    assert new.number != old.number
    if asked:
        store.cancel(new.id)
    before = store.everything()
    for careful in (False, True):
        assert store.answer(old, kind, careful=careful) == "lost"
    assert store.run(jobs.progress([(old, {"percent": 1})])) == 0
    assert store.run(jobs.held([old])) == {}
    assert store.everything() == before
    assert store.settle(new, "succeed")


def test_h1_numbers_of_one_job_grow_and_those_of_two_jobs_differ(store: Store, worker: int) -> None:
    store.run(jobs.enqueue(store.target, [new_job() for _ in range(50)], store.now))
    numbers: list[int] = []
    for turn in range(1, 4):
        claims = store.claim(worker)
        assert {counted(claim) for claim in claims} == {turn}
        numbers += [claim.number for claim in claims]
        for claim in claims:
            store.settle(claim, "release")
    assert len(set(numbers)) == 150
    assert max(numbers) < 2**63


@pytest.mark.parametrize("careful", [False, True])
def test_h1_a_cancellation_that_nobody_asked_for_changes_nothing(
    store: Store, worker: int, careful: bool
) -> None:
    claim, other = store.held(worker, queue="a"), store.held(worker, queue="b")
    store.cancel(other.id)
    before = store.everything()
    assert store.answer(claim, "cancel", careful=careful) == "unasked"
    assert store.everything() == before
    assert store.cancel(claim.id) == "asked"
    assert store.answer(claim, "cancel", careful=True) is None
    assert store.states(claim.id) == ["cancelled"]
    assert store.count("stop_request") == 1, "the other's"


@pytest.mark.parametrize("kind", ["retry", "snooze", "release", "advance"])
@pytest.mark.parametrize("first", ["the request", "the verdict"])
def test_no_request_is_lost_that_comes_with_a_verdict_to_run_again(
    store: Store, worker: int, kind: Kind, first: str
) -> None:
    """Neither sees the other. The leader finds a job that waits and was asked to stop."""
    claim = store.held(worker)
    with engine_connection(store.dsn) as conn, conn.transaction():
        if first == "the request":
            assert store.cancel(claim.id, conn) == "asked"
            assert store.settle(claim, kind)
        else:
            assert store.answer(claim, kind, conn=conn) is None
            assert store.cancel(claim.id) == "asked"
    assert store.run(jobs.asked(9)) == [claim.id]
    assert store.cancel_asked() == 1
    assert store.states(claim.id) == ["cancelled"]
    assert (store.run(jobs.asked(9)), store.count("stop_request")) == ([], 0)


def test_what_waits_and_was_asked_to_stop_is_found_in_portions(store: Store, worker: int) -> None:
    store.run(jobs.enqueue(store.target, [new_job() for _ in range(5)], store.now))
    claims = store.claim(worker)
    ids = sorted(claim.id for claim in claims)
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(jobs.cancel(store.target, ids, store.now), conn)
        for claim in claims:
            assert store.settle(claim, "release")
    assert store.run(jobs.asked(3)) == ids[:3]
    store.run(jobs.cancel(store.target, ids[:3], store.now))
    assert store.run(jobs.asked(3)) == ids[3:]


def test_a_request_does_not_outlive_the_life_that_it_was_about(store: Store, worker: int) -> None:
    """A job that failed late, was revived and runs again was not asked to stop."""
    claim = store.held(worker)
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.cancel(claim.id, conn)
        assert store.settle(claim, "fail")
    assert store.count("stop_request") == 1, "it came too late to be answered"
    assert store.run(jobs.revive(store.target, UUID(claim.id), None, store.now))
    assert store.count("stop_request") == 0
    assert store.run(jobs.asked(9)) == []


@pytest.mark.parametrize("kind", ["complete", "fail", "release", "snooze"])
def test_a_consumer_settles_by_the_number_that_its_claim_has(store: Store, kind: str) -> None:
    job_id = store.enqueue()
    (pulled,) = store.run(pulls.pull("q", 1, 30.0, None)).claimed
    assert pulled.claim >> 32 == 1
    number = pulled.claim
    settle: dict[str, Any] = {
        "complete": pulls.complete(job_id, number, b"1"),
        "fail": pulls.fail(job_id, number, "why", False, None),
        "release": pulls.release(job_id, number),
        "snooze": pulls.snooze(job_id, number, 5.0),
    }
    assert store.run(pulls.extend(job_id, number, 30.0))
    assert not store.run(pulls.extend(job_id, number + 1, 30.0))
    assert store.run(settle[kind])
    ends = {"complete": "succeeded", "fail": "failed", "release": "ready", "snooze": "scheduled"}
    assert store.states(job_id) == [ends[kind]]


# -- S13 ------------------------------------------------------------------------------------------

_BOUND = 4 * 1024 * 1024


def _large(store: Store, count: int, size: int) -> None:
    """Jobs whose input the server cannot make smaller."""
    for number in range(count):
        store.enqueue(input={"n": number})
    store.eyes.execute("alter table job alter column input set storage external")
    store.eyes.execute("update job set input = jsonb_build_object('text', repeat('x', %s))", [size])


def test_s13_a_claim_is_bounded_in_bytes_and_the_next_gets_the_rest(own_store: Store) -> None:
    store = own_store
    worker = store.register()
    _large(store, 7, _BOUND // 2 - 100)
    taken: list[list[Claim]] = []
    cursor = 0
    while claims := store.claim(worker, ask(cursor=cursor)):
        taken.append(claims)
        cursor = max(claim.seq for claim in claims)
    assert [len(claims) for claims in taken] == [3, 3, 1], "until what it has reaches the bound"
    assert [[claim.cut for claim in claims] for claims in taken] == [
        [True] * 3,
        [True] * 3,
        [False],
    ]
    seqs = [claim.seq for claims in taken for claim in claims]
    assert seqs == sorted(seqs), "in the order of the lane"


def test_s13_a_claim_takes_at_least_one_job_however_large(own_store: Store) -> None:
    store = own_store
    worker = store.register()
    _large(store, 3, _BOUND + 1000)
    for cut in (True, True, False):
        (claim,) = store.claim(worker)
        assert claim.cut is cut
        assert len(claim.input) > _BOUND


def test_s13_what_a_claim_left_is_free_for_others_at_once(own_store: Store) -> None:
    store = own_store
    _large(store, 4, _BOUND)
    first, second = store.register(), store.register()
    (one,) = store.claim(first)
    (other,) = store.claim(second)
    assert one.id != other.id
    states = [row["state"] for row in store.rows("select state from job order by seq")]
    assert states == ["x", "x", "r", "r"]


def test_s13_small_inputs_are_not_cut(store: Store, worker: int) -> None:
    store.run(jobs.enqueue(store.target, [new_job() for _ in range(200)], store.now))
    claims = store.claim(worker, ask(room=200), room=200)
    assert len(claims) == 200
    assert not any(claim.cut for claim in claims)
