"""revive.sql: tried again on request, with its past kept."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from headway.store import jobs
from tests.store.store import NOW, Aside, Store, engine_connection


def test_a_revived_job_has_fresh_attempts_and_goes_on_counting_claims(
    store: Store, worker: int
) -> None:
    """I3, and G7: it stands where it failed, with its past kept."""
    claim = store.held(worker, max_attempts=2, input={"k": 1}, headers={"h": "v"}, ttl=60.0)
    store.settle(claim, "retry", error="one")
    (claim,) = store.claim(worker)
    store.settle(claim, "fail", error="two")
    store.advance(100)
    assert store.run(jobs.revive(store.target, UUID(claim.id), store.now))
    assert store.archived(claim.id) is None
    row = store.live(claim.id)
    assert row is not None
    assert row == row | {
        "state": "r",
        "attempt": 0,
        "claim": 2,
        "max_attempts": 2,
        "input": {"k": 1},
        "headers": {"h": "v"},
        "run_at": NOW + timedelta(seconds=100),
        "created_at": NOW,
        "expires_at": None,
        "cancelling": False,
    }
    (again,) = store.claim(store.register())
    assert (again.number, again.attempt) == (3, 1)
    messages = [attempt["error"]["message"] for attempt in store.attempts(claim.id)]
    assert messages == ["one", "two"]


def test_a_revived_job_does_not_hear_its_old_life(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.settle(claim, "fail")
    store.run(jobs.revive(store.target, UUID(claim.id), store.now))
    store.claim(worker)
    before = store.everything()
    assert not store.settle(claim, "succeed")
    assert store.everything() == before


def test_a_scheduled_job_is_hurried(store: Store) -> None:
    job_id = store.enqueue(delay=3600.0)
    other = store.enqueue()
    with store.listening() as heard:
        assert store.run(jobs.revive(store.target, job_id, store.now))
        assert heard() == ["ready 0 q"]
    row, between = store.live(job_id), store.live(other)
    assert row is not None
    assert between is not None
    assert (row["state"], row["run_at"]) == ("r", NOW)
    assert row["seq"] > between["seq"]


def test_two_who_revive_at_the_same_time_make_one_job(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.settle(claim, "fail")
    revive = jobs.revive(store.target, UUID(claim.id), store.now)
    with engine_connection(store.dsn) as conn, conn.transaction():
        assert store.run(revive, conn)
        second = Aside(store, revive).wait_until_it_waits()
    assert second.answer() is False
    assert store.states(claim.id) == ["ready"]
