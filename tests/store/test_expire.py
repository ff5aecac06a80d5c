"""expire.sql: a waiting job whose time to live has passed ends with an error that names it."""

from __future__ import annotations

from datetime import timedelta

from headway.store.statements import jobs
from tests.store.store import NOW, Store, engine_connection


def _expire(store: Store, limit: int = 100) -> int:
    return store.run(jobs.expire(store.target, limit, store.now))


def test_a_job_expires_exactly_when_its_time_to_live_ends(store: Store) -> None:
    job_id = store.enqueue(ttl=60.0)
    store.advance(59.999999)
    assert _expire(store) == 0
    store.advance(0.000001)
    assert _expire(store) == 1
    assert store.states(job_id) == ["expired"]


def test_i7_an_expired_job_is_archived_with_its_input(store: Store) -> None:
    job_id = store.enqueue(ttl=10.0, delay=3600.0, input={"x": 1}, headers={"h": "v"})
    store.advance(25)
    _expire(store)
    row = store.archived(job_id)
    assert row is not None
    assert row == row | {
        "state": "e",
        "input": {"x": 1},
        "headers": {"h": "v"},
        "finished_at": NOW + timedelta(seconds=25),
        "expires_at": NOW + timedelta(seconds=10),
        "attempt": 0,
        "worker_id": None,
    }
    assert row["error"]["type"] == "Expired"


def test_g7_a_job_without_a_time_to_live_never_expires(store: Store) -> None:
    job_id = store.enqueue()
    store.advance(10 * 365 * 86_400)
    assert _expire(store) == 0
    assert store.states(job_id) == ["ready"]


def test_a_running_job_does_not_expire_but_its_retry_does(store: Store, worker: int) -> None:
    claim = store.held(worker, ttl=20.0)
    store.advance(20)
    assert _expire(store) == 0
    assert store.settle(claim, "retry", delay=1, error="no luck")
    assert _expire(store) == 1
    row = store.archived(claim.id)
    assert row is not None
    assert (row["state"], row["attempt"], row["started_at"]) == ("e", 1, NOW)
    assert len(store.attempts(claim.id)) == 1, "the attempt it had stays on record"


def test_no_more_than_the_limit_and_the_oldest_first(store: Store) -> None:
    ids = [store.enqueue(ttl=float(ttl)) for ttl in (30, 10, 20)]
    store.advance(60)
    assert _expire(store, limit=2) == 2
    assert [store.states(job_id) for job_id in ids] == [["ready"], ["expired"], ["expired"]]


def test_a_job_that_is_being_claimed_is_passed_over(store: Store) -> None:
    held, free = store.enqueue(ttl=1.0), store.enqueue(ttl=1.0)
    store.advance(1)
    with engine_connection(store.dsn) as conn, conn.transaction():
        conn.execute(
            f"select 1 from {store.schema}.job where id = %s for no key update", [str(held)]
        )
        assert _expire(store) == 1
    assert (store.states(held), store.states(free)) == (["ready"], ["expired"])


def test_a_caller_that_waits_for_an_expired_job_is_notified(store: Store) -> None:
    job_id, other = store.enqueue(ttl=1.0), store.enqueue(ttl=1.0)
    store.run(jobs.await_end(job_id, store.now))
    store.advance(1)
    with store.listening(store.target.done_channel) as heard:
        assert _expire(store) == 2
        assert heard() == [str(job_id)]
    assert store.count("awaited") == 0
    assert store.states(other) == ["expired"]
