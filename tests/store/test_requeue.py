"""requeue.sql: verdicts that send a job round again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.core.verdict import Kind
from headway.store.statements import jobs
from headway.store.statements.jobs import Settled
from tests.store.store import NOW, Store, counted, new_job, verdict


def test_a_retry_goes_to_the_tail_of_its_lane(store: Store, worker: int) -> None:
    claim = store.held(worker)
    other = store.enqueue()
    assert store.settle(claim, "retry")
    order = [str(row["id"]) for row in store.rows("select id from job order by seq")]
    assert order == [str(other), claim.id]


def test_a_retry_after_a_delay_waits_for_it(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.advance(1)
    assert store.settle(claim, "retry", delay=2.5)
    row = store.live(claim.id)
    assert row is not None
    assert (row["state"], row["run_at"]) == ("s", NOW + timedelta(seconds=3.5))
    assert (row["attempt"], row["claims"]) == (1, 1), "the attempt stays spent"
    assert (row["worker_id"], row["progress"]) == (None, None)


def test_i7_a_retry_keeps_the_error_of_its_attempt(store: Store, worker: int) -> None:
    claim = store.held(worker)
    statement = jobs.requeue(
        store.target, worker, [Settled(claim, verdict("retry", error="first"))], store.now
    )
    assert store.run(statement) == {}
    (attempt,) = store.attempts(claim.id)
    assert attempt == attempt | {
        "attempt": 1,
        "claims": 1,
        "worker_id": worker,
        "started_at": NOW,
        "finished_at": NOW,
        "outcome": "r",
        "error": {"type": "Oops", "message": "first"},
    }


def test_i5_a_snooze_gives_the_attempt_back_and_goes_to_the_tail(store: Store, worker: int) -> None:
    claim = store.held(worker)
    assert store.settle(claim, "snooze", delay=300)
    row = store.live(claim.id)
    assert row is not None
    assert (row["state"], row["attempt"], row["claims"]) == ("s", 0, 1)
    assert row["run_at"] == NOW + timedelta(minutes=5)
    assert row["seq"] > claim.seq
    assert store.attempts(claim.id) == [], "nothing failed"


def test_g11_a_release_keeps_the_place_and_gives_the_attempt_back(
    store: Store, worker: int
) -> None:
    claim = store.held(worker)
    store.enqueue()
    assert store.settle(claim, "release")
    row = store.live(claim.id)
    assert row is not None
    assert (row["state"], row["attempt"], row["seq"]) == ("r", 0, claim.seq)
    assert store.attempts(claim.id) == []
    (again,) = store.claim(worker, room=1)
    assert (again.id, counted(again), again.attempt) == (claim.id, 2, 1)


@pytest.mark.parametrize("kind", ["retry", "snooze", "release"])
def test_g2_a_stale_claim_changes_nothing(store: Store, worker: int, kind: Kind) -> None:
    old = store.held(worker)
    store.settle(old, "release")
    store.claim(worker)
    before = store.everything()
    assert not store.settle(old, kind)
    assert store.everything() == before


@pytest.mark.parametrize("kind", ["retry", "snooze", "release"])
def test_g3_going_round_twice_goes_round_once(store: Store, worker: int, kind: Kind) -> None:
    claim = store.held(worker)
    assert store.settle(claim, kind)
    before = store.everything()
    assert not store.settle(claim, kind)
    assert store.everything() == before


@pytest.mark.parametrize("kind", ["retry", "snooze", "release"])
def test_a_job_that_was_asked_to_stop_does_not_go_round_again(
    store: Store, worker: int, kind: Kind
) -> None:
    claim = store.held(worker)
    store.cancel(claim.id)
    before = store.everything()
    assert store.answer(claim, kind) == "asked", "so that the settler ends it as cancelled"
    assert store.everything() == before
    # The row shows that it was locked, so the first look at it may not be enough.
    assert store.settle(claim, "cancel", careful=True)
    assert store.states(claim.id) == ["cancelled"]


def test_input_headers_and_age_survive_going_round(store: Store, worker: int) -> None:
    claim = store.held(worker, input={"k": 1}, headers={"h": "1"}, ttl=500.0)
    kept = ("id", "input", "headers", "options", "created_at", "expires_at", "max_attempts", "task")
    before = store.live(claim.id)
    assert before is not None
    store.advance(10)
    store.settle(claim, "retry", delay=1)
    after = store.live(claim.id)
    assert after is not None
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


def test_one_batch_may_send_jobs_round_in_every_way(store: Store, worker: int) -> None:
    made = [new_job() for _ in range(4)]
    store.run(jobs.enqueue(store.target, made, store.now))
    claims = sorted(store.claim(worker), key=lambda claim: claim.seq)
    claims[3].number = 7
    verdicts = [
        verdict("retry", delay=5),
        verdict("snooze", delay=9),
        verdict("release"),
        verdict("retry"),
    ]
    settled = [Settled(claim, v) for claim, v in zip(claims, verdicts, strict=True)]
    untouched = store.run(jobs.requeue(store.target, worker, settled, store.now))
    assert untouched == {claims[3].id: "lost"}
    states = [store.states(claim.id) for claim in claims]
    assert states == [["scheduled"], ["scheduled"], ["ready"], ["running"]]


def test_one_notification_per_queue_and_one_for_all_that_is_due_later(
    store: Store, worker: int
) -> None:
    settled = [
        Settled(store.held(worker, queue=queue), verdict("retry", delay=delay))
        for queue in ("a", "b")
        for delay in (0, 0, 5, 6)
    ]
    with store.listening() as heard:
        assert store.run(jobs.requeue(store.target, worker, settled, store.now)) == {}
        assert sorted(heard()) == ["later", "ready 0 a", "ready 0 b"]
