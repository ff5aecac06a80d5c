"""G14: rows that a stranger's open transaction has locked. Nobody waits for them.

The stranger and the statement run in one thread. A statement that waited would wait for itself: it would
end with the engine's `lock_timeout`, and the test with that error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway.core.limits import Limit
from headway.core.verdict import Kind
from headway.store.documents import Settled
from headway.store.rows import Claim, NotSettled
from headway.store.statements import controls, counts, fleet, jobs
from tests.store.store import TASK, Store, ask, engine_connection, verdict

LOCKS = {
    "selected for update": "select 1 from job where id = any (%s) for update",
    "selected for share": "select 1 from job where id = any (%s) for share",
    "updated": "update job set headers = '{}' where id = any (%s)",
}
KINDS: list[Kind] = ["succeed", "fail", "cancel", "retry", "snooze", "release", "advance"]
_CAME_TO = {
    "succeed": "succeeded",
    "fail": "failed",
    "cancel": "cancelled",
    "retry": "ready",
    "snooze": "scheduled",
    "release": "ready",
    "advance": "ready",
}


@contextmanager
def stranger(store: Store) -> Iterator[psycopg.Connection[Any]]:
    """A session with an open transaction, which is rolled back in the end."""
    with psycopg.connect(store.dsn) as conn:
        conn.execute(sql.SQL("set search_path = {}").format(sql.Identifier(store.schema)))
        yield conn
        conn.rollback()


def _running(store: Store, worker: int, many: int = 3) -> list[Claim]:
    for _ in range(many):
        store.enqueue()
    return sorted(store.claim(worker), key=lambda claim: claim.seq)


def _settle(store: Store, claims: list[Claim], kind: Kind, *, careful: bool = False) -> NotSettled:
    """Settle all of them in one statement."""
    delay = 5.0 if kind == "snooze" else 0.0
    settled = [Settled(claim, verdict(kind, delay=delay)) for claim in claims]
    if kind == "advance":
        return store.run(jobs.advance(store.target, settled, store.now))
    if kind in ("succeed", "fail", "cancel"):
        return store.run(jobs.finish(store.target, settled, store.now, careful=careful))
    return store.run(jobs.requeue(store.target, 0, settled, store.now))


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("kind", KINDS)
def test_g14_a_verdict_about_a_locked_row_is_set_aside_and_the_others_are_written(
    store: Store, worker: int, kind: Kind, lock: str
) -> None:
    first, locked, last = _running(store, worker)
    if kind == "cancel":
        store.run(jobs.cancel(store.target, [first.id, locked.id, last.id], store.now))
    with stranger(store) as other:
        other.execute(LOCKS[lock], [[locked.id]])
        before = store.row(locked.id)
        assert _settle(store, [first, locked, last], kind) == {locked.id: "locked"}
        assert store.row(locked.id) == before
        assert [store.states(one.id) for one in (first, last)] == [[_CAME_TO[kind]]] * 2
        assert _settle(store, [locked], kind, careful=True) == {locked.id: "locked"}, "still"
        assert store.row(locked.id) == before
    assert _settle(store, [locked], kind, careful=True) == {}
    assert store.states(locked.id) == [_CAME_TO[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_g14_a_row_that_a_stranger_changed_is_settled_once_he_has_committed(
    store: Store, worker: int, kind: Kind
) -> None:
    (claim,) = _running(store, worker, 1)
    if kind == "cancel":
        store.cancel(claim.id)
    with stranger(store) as other:
        other.execute('update job set headers = \'{"by": "hand"}\' where id = %s', [claim.id])
        assert _settle(store, [claim], kind) == {claim.id: "locked"}
        other.commit()
    assert _settle(store, [claim], kind, careful=True) == {}
    row = store.live(claim.id) or store.archived(claim.id)
    assert row is not None
    assert row["headers"] == {"by": "hand"}, "his change is not lost"


def test_g14_a_row_that_was_locked_and_is_free_again_takes_the_careful_way(
    store: Store, worker: int
) -> None:
    """Its xmax stays. Whether the lock does, the careful statement finds out."""
    (claim,) = _running(store, worker, 1)
    with stranger(store) as other:
        other.execute(LOCKS["selected for update"], [[claim.id]])
    assert _settle(store, [claim], "succeed") == {claim.id: "locked"}
    assert _settle(store, [claim], "succeed", careful=True) == {}


def test_g2_the_careful_way_is_fenced_as_well(store: Store, worker: int) -> None:
    (old,) = _running(store, worker, 1)
    store.settle(old, "release")
    (new,) = store.claim(worker)
    before = store.everything()
    assert _settle(store, [old], "succeed", careful=True) == {old.id: "lost"}
    assert store.everything() == before
    assert _settle(store, [new], "succeed", careful=True) == {}


@pytest.mark.parametrize("lock", LOCKS)
def test_g14_progress_skips_a_locked_row(store: Store, worker: int, lock: str) -> None:
    first, locked, last = _running(store, worker)
    with stranger(store) as other:
        other.execute(LOCKS[lock], [[locked.id]])
        notes = [(claim, {"percent": 7}) for claim in (first, locked, last)]
        assert store.run(jobs.progress(notes)) == 2
    assert store.run(jobs.progress(notes)) == 3, "the next note brings it"
    assert store.row(locked.id)["progress"] == {"percent": 7}


@pytest.mark.parametrize("lock", LOCKS)
def test_g14_marking_what_runs_under_a_new_limit_skips_a_locked_row(
    store: Store, worker: int, lock: str
) -> None:
    first, locked, last = _running(store, worker)
    limit = Limit(concurrency=2)
    store.run(controls.set_limit(store.target, "queue", "q", limit, "ada", store.now))
    with stranger(store) as other:
        other.execute(LOCKS[lock], [[locked.id]])
        assert store.run(controls.mark_limited(worker)) == 2
        assert [store.row(one.id)["limited"] for one in (first, locked, last)] == [
            True,
            False,
            True,
        ]
    assert store.run(controls.mark_limited(worker + 1)) == 0, "of another worker"
    assert store.run(controls.mark_limited()) == 1


def test_g14_a_rescue_an_expiry_and_a_promotion_skip_locked_rows(store: Store) -> None:
    lost = store.register(lease=1)
    for _ in range(2):
        store.enqueue()
    claims = store.claim(lost)
    old = [store.enqueue(ttl=1.0, queue="old") for _ in range(2)]
    later = [store.enqueue(delay=1.0, queue="later") for _ in range(2)]
    store.advance(1)

    def found() -> list[int]:
        return [
            store.rescue()[0],
            store.run(jobs.expire(store.target, 9, store.now)),
            store.run(jobs.promote(store.target, None, 9, store.now)).count,
        ]

    with stranger(store) as other:
        ids = [claims[0].id, str(old[0]), str(later[0])]
        other.execute(LOCKS["selected for update"], [ids])
        assert found() == [1, 1, 1]
        assert found() == [0, 0, 0]
    assert found() == [1, 1, 1]


# -- what operators do ----------------------------------------------------------------------------

_SPOKEN: dict[str, str] = {
    "cancel": "select cancel(%(job)s)",
    "set a limit of the queue": "select set_limit(queue => 'q', concurrency => 1)",
    "set a limit of the task": "select set_limit(task => 'resize', concurrency => 1, rate => '1/h')",
    "reset a limit": "select reset_limit(queue => 'limited')",
    "pause": "select pause(queue => 'q')",
    "drain": "select drain(%(worker)s)",
}


@pytest.mark.parametrize("said", _SPOKEN)
def test_r1_an_operators_open_transaction_holds_up_no_verdict(
    store: Store, worker: int, said: str
) -> None:
    store.limit("limited", concurrency=1)
    claims = _running(store, worker)
    operator = _SPOKEN[said]
    store.rows("update worker set expires_at = '2999-01-01' returning 1")  # it lives by any clock
    with stranger(store) as other:
        other.execute(operator, {"job": claims[0].id, "worker": worker})  # type: ignore[arg-type]
        assert _settle(store, claims, "succeed") == {}
        assert store.run(fleet.heartbeat(worker, 1e9, store.now)) is not None
        store.enqueue(queue="another")
        assert len(store.claim(worker, ask("another"))) == 1
        other.commit()
    assert [store.states(claim.id) for claim in claims] == [["succeeded"]] * 3


_STATEMENTS: dict[str, Callable[[Store, Claim], Any]] = {
    "cancel": lambda store, claim: jobs.cancel(store.target, [claim.id], store.now),
    "set_limit": lambda store, claim: controls.set_limit(
        store.target, "task", TASK, Limit(concurrency=1), "ada", store.now
    ),
    "reset_limit": lambda store, claim: controls.reset_limit(store.target, "queue", "q"),
}


@pytest.mark.parametrize("statement", _STATEMENTS)
@pytest.mark.parametrize("kind", ["succeed", "fail", "retry", "advance"])
def test_r1_a_statement_of_ours_that_stays_open_holds_up_no_verdict(
    store: Store, worker: int, kind: Kind, statement: str
) -> None:
    claims = _running(store, worker)
    store.limit("q", concurrency=9)
    with stranger(store) as other:
        store.run(_STATEMENTS[statement](store, claims[0]), other)
        # The limit marked the rows, so they are of another version than the claim's.
        assert _settle(store, claims, kind) == {}
        other.commit()
    assert [store.states(claim.id) for claim in claims] == [[_CAME_TO[kind]]] * 3


def test_g14_a_drain_that_stays_open_does_not_hold_up_the_heartbeat(
    store: Store, worker: int
) -> None:
    with stranger(store) as other:
        assert store.run(fleet.drain(store.target, worker, store.now), other)
        beat = store.run(fleet.heartbeat(worker, 30, store.now))
        assert beat is not None
        assert not beat.draining
        assert store.run(fleet.retire(worker, store.now)), "nor the end of the worker"
        other.commit()
    store.run(fleet.clean_up(store.now))
    assert store.count("drain_request") == 0, "the request is forgotten with the worker"


def test_g14_a_cancellation_does_not_wait_for_a_locked_row(store: Store) -> None:
    locked, free = store.enqueue(), store.enqueue()
    with stranger(store) as other:
        other.execute(LOCKS["updated"], [[str(locked)]])
        answers = store.run(jobs.cancel(store.target, [locked, free], store.now))
        assert answers == {str(locked): "asked", str(free): "cancelled"}
        assert store.cancel_asked() == 0, "it is locked still"
    assert store.cancel_asked() == 1, "the leader comes by again"
    assert store.states(locked) == ["cancelled"]
    assert store.count("stop_request") == 0


# -- sweeps ---------------------------------------------------------------------------------------

_OLD = {
    "worker": "insert into worker (name, version, slots, queues, tasks, started_at, seen_at, expires_at)"
    " select 'w', '0', 1, '[]', '[]', %(old)s, %(old)s, %(old)s from generate_series(1, 2)",
    "awaited": "insert into awaited select gen_random_uuid(), %(old)s from generate_series(1, 2)",
    "unique_period": "insert into unique_period"
    " select 't', n, gen_random_uuid(), %(old)s from generate_series(1, 2) n",
    "unkept": "insert into unkept select gen_random_uuid(), %(old)s from generate_series(1, 2)",
    "bucket": "insert into bucket select n, '1', %(old)s from generate_series(1, 2) n",
    "control": "insert into control (kind, name, paused_at, paused_until)"
    " select 'queue', n, %(old)s, %(old)s from generate_series(1, 2) n",
    "start": "insert into start select n, 'no such', '1', %(old)s, 1 from generate_series(1, 2) n",
    "stop_request": "insert into stop_request"
    " select gen_random_uuid(), %(old)s from generate_series(1, 2)",
    "drain_request": "insert into drain_request select -n, %(old)s from generate_series(1, 2) n",
}


@pytest.mark.parametrize("table", _OLD)
def test_g14_what_is_to_be_forgotten_and_locked_is_left_for_the_next_time(
    store: Store, table: str
) -> None:
    old = store.now.replace(year=2030)
    store.eyes.execute(_OLD[table], {"old": old})  # type: ignore[arg-type]
    with stranger(store) as other:
        other.execute(f"select 1 from {table} limit 1 for update")  # type: ignore[arg-type]
        store.run(fleet.clean_up(store.now))
        assert store.count(table) == 1
    store.run(fleet.clean_up(store.now))
    assert store.count(table) == 0


def test_g14_tallies_that_somebody_has_locked_are_added_up_the_next_time(store: Store) -> None:
    for queue in ("a", "b"):
        store.eyes.execute("insert into tally values (%s, 'd', 2)", [queue])
    with stranger(store) as other:
        other.execute("select 1 from tally where queue = 'a' for update")
        store.run(counts.tally(10, store.now))
        assert store.rows("select queue from tally") == [{"queue": "a"}]
    store.run(counts.tally(10, store.now))
    assert store.rows("select queue, count from total order by queue") == [
        {"queue": "a", "count": 2},
        {"queue": "b", "count": 2},
    ]


def test_g14_while_somebody_adds_up_tallies_nobody_else_does_or_waits(store: Store) -> None:
    store.eyes.execute("insert into tally values ('a', 'd', 2)")
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(counts.tally(10, store.now), conn)
        store.eyes.execute("insert into tally values ('a', 'd', 3)")
        store.run(counts.tally(10, store.now))
        assert store.rows("select queue from total") == []
    store.run(counts.tally(10, store.now))
    assert store.rows("select count from total") == [{"count": 5}]
    assert store.count("tally") == 0
