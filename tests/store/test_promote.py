"""promote.sql: what is due becomes ready, no earlier than its moment, and the next moment is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.store.rows import Promotion
from headway.store.statements import jobs
from headway.store.statements.jobs import Moment
from tests.store.store import NOW, Store, engine_connection


def _promote(store: Store, since: Moment = None, limit: int = 100) -> Promotion:
    return store.run(jobs.promote(store.target, since, limit, store.now))


def test_i6_a_job_becomes_ready_exactly_when_it_is_due(store: Store) -> None:
    job_id = store.enqueue(delay=10.0)
    store.advance(9.999999)
    assert _promote(store).count == 0
    assert store.states(job_id) == ["scheduled"]
    store.advance(0.000001)
    assert _promote(store).count == 1
    assert store.states(job_id) == ["ready"]


def test_it_goes_to_the_tail_of_its_lane(store: Store) -> None:
    delayed = store.enqueue(delay=5.0)
    before = store.live(delayed)
    other = store.enqueue()
    store.advance(5)
    _promote(store)
    after, between = store.live(delayed), store.live(other)
    assert before is not None
    assert after is not None
    assert between is not None
    assert before["seq"] < between["seq"] < after["seq"]
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"state", "seq"}


def test_it_says_how_long_until_the_next_one(store: Store) -> None:
    assert _promote(store) == Promotion(0, None, None)
    store.enqueue(delay=10.0)
    store.enqueue(delay=12.5)
    assert _promote(store) == Promotion(0, None, 10.0)
    store.advance(10)
    assert _promote(store) == Promotion(1, NOW + timedelta(seconds=10), 2.5)
    store.advance(100)
    assert _promote(store) == Promotion(1, NOW + timedelta(seconds=12.5), None)


def test_no_more_than_the_limit_and_the_longest_due_first(store: Store) -> None:
    later = [store.enqueue(delay=float(n)) for n in (30, 20, 10)]
    store.advance(60)
    assert _promote(store, limit=2).count == 2
    assert [store.states(job_id) for job_id in later] == [["scheduled"], ["ready"], ["ready"]]
    assert _promote(store, limit=2).count == 1


def test_what_lies_before_the_cursor_is_not_looked_at(store: Store) -> None:
    early, late = store.enqueue(delay=10.0), store.enqueue(delay=20.0)
    store.advance(60)
    since = NOW + timedelta(seconds=20)
    assert _promote(store, since=since).count == 1
    assert (store.states(early), store.states(late)) == (["scheduled"], ["ready"])
    assert _promote(store, since=None).count == 1


@pytest.mark.parametrize("state", ["blocked", "running", "waiting"])
def test_only_scheduled_jobs_are_promoted(store: Store, worker: int, state: str) -> None:
    claim = store.held(worker)
    if state != "running":
        store.settle(claim, "release")
        store.rows("update job set state = %s returning 1", state[0])
    before = store.everything()
    store.advance(1_000)
    assert _promote(store).count == 0
    assert store.everything() == before


def test_two_promoters_do_not_wait_for_each_other(store: Store) -> None:
    for _ in range(4):
        store.enqueue(delay=1.0)
    store.advance(1)
    with engine_connection(store.dsn) as conn, conn.transaction():
        first = store.run(jobs.promote(store.target, None, 2, store.now), conn)
        second = _promote(store)
    assert (first.count, second.count) == (2, 2)
    assert store.one("select count(distinct seq) as n from job where state = 'r'")["n"] == 4


def test_one_notification_per_queue(store: Store) -> None:
    for queue in ("a", "b"):
        for priority in (0, 3):
            for _ in range(10):
                store.enqueue(queue=queue, priority=priority, delay=1.0)
    store.advance(1)
    with store.listening() as heard:
        assert _promote(store).count == 40
        assert sorted(heard()) == ["ready 3,0 a", "ready 3,0 b"]
