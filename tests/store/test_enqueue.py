"""enqueue.sql and withdraw.sql: what a new job's row says, and that repeating makes nothing new."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from headway.core import codec
from headway.store.statements import jobs
from tests.store.store import NOW, Store, engine_connection, new_job


def test_everything_given_is_stored(store: Store) -> None:
    job_id = store.enqueue(
        queue="mail",
        task="welcome",
        priority=-3,
        max_attempts=7,
        delay=90.5,
        ttl=3600,
        input={"user": 1, "name": "Åda ✓", "deep": [None, {"a": 1.5}]},
        options={"timeout": 30.0, "retry": {"base": 2.0}},
        headers={"trace": "abc"},
    )
    row = store.live(job_id)
    assert row is not None
    assert row == row | {
        "queue": "mail",
        "task": "welcome",
        "priority": -3,
        "max_attempts": 7,
        "state": "s",
        "run_at": NOW + timedelta(seconds=90.5),
        "created_at": NOW,
        "expires_at": NOW + timedelta(hours=1),
        "input": {"user": 1, "name": "Åda ✓", "deep": [None, {"a": 1.5}]},
        "options": {"timeout": 30.0, "retry": {"base": 2.0}},
        "headers": {"trace": "abc"},
        "claims": 0,
        "attempt": 0,
        "worker_id": None,
        "claimed_at": None,
        "crashes": 0,
        "step": "",
        "progress": None,
        "key": None,
        "key_limit": None,
        "ordered": False,
        "holds": False,
        "unique_key": None,
        "carried": None,
    }


def test_what_is_left_open_stays_open(store: Store) -> None:
    row = store.live(store.enqueue())
    assert row is not None
    assert row == row | {"expires_at": None, "options": None, "headers": None, "run_at": NOW}


@pytest.mark.parametrize(
    ("given", "state", "due"),
    [
        ({}, "r", NOW),
        ({"delay": 0.0}, "r", NOW),
        ({"delay": 0.001}, "s", NOW + timedelta(milliseconds=1)),
        ({"at": NOW}, "r", NOW),
        ({"at": NOW - timedelta(days=400)}, "r", NOW - timedelta(days=400)),
        ({"at": NOW + timedelta(microseconds=1)}, "s", NOW + timedelta(microseconds=1)),
    ],
)
def test_i6_only_what_can_run_now_is_ready(
    store: Store, given: dict[str, object], state: str, due: datetime
) -> None:
    row = store.live(store.enqueue(**given))
    assert row is not None
    assert (row["state"], row["run_at"]) == (state, due)


def test_a_moment_in_any_zone_is_the_same_moment(store: Store) -> None:
    at = datetime.fromisoformat("2040-01-01T15:00:00+02:00")
    row = store.live(store.enqueue(at=at))
    assert row is not None
    assert row["run_at"] == datetime(2040, 1, 1, 13, tzinfo=UTC)


def test_g10_without_a_moment_the_databases_clock_decides(store: Store) -> None:
    job = new_job(delay=60.0)
    with store.conn.transaction():
        store.run(jobs.enqueue(store.target, [job], None))
        cursor = store.conn.execute("select now()")
        (moment,) = cursor.fetchone() or (None,)
    row = store.live(job.id)
    assert row is not None
    assert (row["created_at"], row["run_at"]) == (moment, moment + timedelta(seconds=60))


def test_a_batch_keeps_its_order(store: Store) -> None:
    made = [new_job() for _ in range(500)]
    assert store.run(jobs.enqueue(store.target, made, store.now)) == {}
    ordered = [str(row["id"]) for row in store.rows("select id from job order by seq")]
    assert ordered == [job.id for job in made]
    assert ordered == sorted(ordered), "ids are in the order they were made"


def test_g3_repeating_an_enqueue_makes_nothing_new(store: Store) -> None:
    made = [new_job() for _ in range(3)]
    store.run(jobs.enqueue(store.target, made, store.now))
    before = store.everything()
    more = [*made, new_job()]
    assert store.run(jobs.enqueue(store.target, more, store.now)) == {}
    after = store.everything()
    assert set(before["job"]) < set(after["job"])
    assert len(after["job"]) == 4


def test_an_id_given_twice_in_one_batch_makes_one_job(store: Store) -> None:
    job = new_job()
    assert store.run(jobs.enqueue(store.target, [job, job], store.now)) == {}
    assert store.count("job") == 1


def test_g3_a_job_that_ended_before_the_repetition_is_withdrawn(store: Store, worker: int) -> None:
    ended, living = new_job(), new_job()
    made = [ended, living]
    store.run(jobs.enqueue(store.target, made, store.now))
    first, _ = store.claim(worker)
    assert first.id == ended.id
    assert store.settle(first, "succeed")
    before = store.everything()
    with store.conn.transaction():
        assert store.run(jobs.enqueue(store.target, made, store.now)) == {}
        assert store.run(jobs.withdraw([ended.id, living.id])) == 1
    assert store.everything() == before


def test_withdrawing_leaves_a_revived_job_alone(store: Store, worker: int) -> None:
    """It has an id of a finished job and has been claimed before: it is not a repetition."""
    claim = store.held(worker)
    store.settle(claim, "fail")
    store.run(jobs.revive(store.target, UUID(claim.id), None, store.now))
    assert store.run(jobs.withdraw([claim.id])) == 0
    assert store.states(claim.id) == ["ready"]


def test_g1_a_job_exists_if_and_only_if_its_transaction_commits(store: Store) -> None:
    kept, dropped = new_job(), new_job()
    with psycopg.connect(store.dsn) as conn:
        store.run(jobs.enqueue(store.target, [kept], store.now), conn)
        assert store.live(kept.id) is None, "not before the commit"
        conn.commit()
        store.run(jobs.enqueue(store.target, [dropped], store.now), conn)
        conn.rollback()
    assert store.live(kept.id) is not None
    assert store.live(dropped.id) is None


def test_an_open_enqueue_locks_nothing_but_its_own_rows(store: Store, worker: int) -> None:
    other = store.enqueue()
    with engine_connection(store.dsn) as conn, conn.transaction():
        conn.execute("set local lock_timeout = '1s'")
        store.run(jobs.enqueue(store.target, [new_job()], store.now), conn)
        (claim,) = store.claim(worker)
        assert claim.id == str(other)
        assert store.settle(claim, "succeed")


def test_one_notification_per_queue_with_its_priorities(store: Store) -> None:
    made = [
        new_job(queue=queue, priority=priority)
        for queue in ("mail", "reports daily")
        for priority in (0, 5, -2)
        for _ in range(50)
    ]
    with store.listening() as heard:
        store.run(jobs.enqueue(store.target, made, store.now))
        spoken = heard()
    assert len(spoken) == 2
    for payload in spoken:
        word, priorities, queue = payload.split(" ", 2)
        assert word == "ready"
        assert set(priorities.split(",")) == {"0", "5", "-2"}
        assert queue in ("mail", "reports daily")


def test_a_queue_of_very_many_lanes_can_still_be_announced(store: Store) -> None:
    """A notification holds 8000 bytes; the highest priorities come first."""
    made = [new_job(queue="q" * 200, priority=n) for n in range(-20_000, -18_000)]
    with store.listening() as heard:
        assert store.run(jobs.enqueue(store.target, made, store.now)) == {}
        (payload,) = heard()
    assert payload.startswith("ready -18001,-18002,")
    assert payload.endswith(" " + "q" * 200)


def test_what_is_due_later_is_announced_once(store: Store) -> None:
    made = [new_job(queue=f"q{n % 5}", delay=60.0) for n in range(50)]
    with store.listening() as heard:
        store.run(jobs.enqueue(store.target, made, store.now))
        assert heard() == ["later"]


def test_a_repetition_that_makes_nothing_says_nothing(store: Store) -> None:
    job = new_job()
    store.run(jobs.enqueue(store.target, [job], store.now))
    with store.listening() as heard:
        store.run(jobs.enqueue(store.target, [job], store.now))
        assert heard() == []


def test_nothing_is_said_where_notifications_are_turned_off(store: Store) -> None:
    with store.listening() as heard:
        store.run(jobs.enqueue(store.quiet, [new_job(), new_job(delay=9.0)], store.now))
        assert heard() == []
    assert store.count("job") == 2


def test_a_document_of_thousands_is_one_statement(store: Store) -> None:
    made = [new_job(input={"text": "x" * 200}) for _ in range(5_000)]
    assert store.run(jobs.enqueue(store.target, made, store.now)) == {}
    assert store.count("job") == 5_000
    document = jobs.enqueue(store.target, made, store.now).params["jobs"]
    assert len(codec.decode(document)) == 5_000
