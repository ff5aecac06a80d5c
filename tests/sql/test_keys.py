"""Concurrency keys where consumers are SQL: who hands room on, and that nobody waits for a lock."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psycopg
import pytest

from tests.sql.hand import Hand


def _ready(hand: Hand) -> list[UUID]:
    return [row["id"] for row in hand.rows("select id from job where state = 'r' order by seq")]


@pytest.mark.parametrize(
    ("function", "given"), [("complete", ()), ("fail", ("why", False)), ("snooze", ("1 hour",))]
)
def test_who_frees_room_hands_it_on_where_no_worker_lives(
    hand: Hand, function: str, given: tuple[object, ...]
) -> None:
    held = hand.held(concurrency_key="k")
    waiting = [hand.enqueue(concurrency_key="k") for _ in range(2)]
    assert hand.settle(function, held, *given) is True
    assert _ready(hand) == waiting[:1]


def test_where_a_worker_lives_it_is_notified_of_the_room_instead(hand: Hand) -> None:
    held = hand.held(concurrency_key="some key")
    hand.enqueue(concurrency_key="some key")
    hand.engine_lives()
    with hand.listening() as heard:
        hand.settle("complete", held)
        assert heard() == [f"room {held['id']}"], "keys are not for everybody to hear"
    assert _ready(hand) == []


def test_what_runs_again_at_once_keeps_its_room(hand: Hand) -> None:
    held = hand.held(concurrency_key="k")
    hand.enqueue(concurrency_key="k")
    assert hand.settle("release", held) is True
    assert _ready(hand) == [held["id"]]
    (held,) = hand.claim()
    assert hand.settle("advance", held, "next", {}) is True
    assert _ready(hand) == [held["id"]]


def test_an_ordered_key_runs_in_order_through_retries(hand: Hand) -> None:
    made = [hand.enqueue("greet", {"n": n}, concurrency_key="k", ordered=True) for n in range(3)]
    ran = []
    hand.sweep()
    while claims := hand.claim("default", 9):
        (claimed,) = claims
        ran.append((claimed["id"], claimed["attempt"]))
        if claimed["attempt"] == 1:
            hand.settle("fail", claimed, "not yet", delay="1 hour")
            assert hand.sweep()["admitted"] == 0
            assert hand.claim("default", 9) == [], (
                "one that waits for its retry holds up the others"
            )
            hand.rows("update job set run_at = now() where state = 's'")
            hand.sweep()
        else:
            hand.settle("complete", claimed)
    assert ran == [(job, attempt) for job in made for attempt in (1, 2)]


def test_an_open_transaction_holds_up_nobody_and_passes_no_limit(hand: Hand, other: Hand) -> None:
    """The key's lock lasts as long as the caller's transaction: others skip the jobs after it."""
    held = hand.held(concurrency_key="k", concurrency_limit=2)
    line = [hand.enqueue(concurrency_key="k", concurrency_limit=2) for _ in range(3)]
    free = hand.enqueue(concurrency_key="another")
    other.rows("set statement_timeout = '30s'")
    with hand.conn.transaction():
        hand.settle("complete", held)
        assert other.sweep()["admitted"] == 1
        assert [claimed["id"] for claimed in other.claim("default", 9)] == [free]
    assert _ready(hand) == line[:2]


def test_many_consumers_never_pass_the_limit_of_a_key(hand: Hand) -> None:
    limits = {"a": 1, "b": 2, "c": 3}
    for key, limit in limits.items():
        hand.rows(
            "select enqueue('greet', concurrency_key => %s, concurrency_limit => %s) "
            "from generate_series(1, 15)",
            key,
            limit,
        )
    running, most, lock = Counter[str](), Counter[str](), threading.Lock()

    def consume(_: int) -> int:
        consumer, done = Hand(hand.dsn, hand.schema), 0
        while consumer.rows("select 1 from job limit 1"):
            consumer.sweep()
            for claimed in consumer.claim("default", 2):
                key = claimed["key"]
                with lock:
                    running[key] += 1
                    most[key] = max(most[key], running[key])
                with lock:
                    running[key] -= 1
                done += consumer.settle("complete", claimed)
        consumer.close()
        return done

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(consume, range(4))) == 45
    assert all(most[key] <= limit for key, limit in limits.items()), most


def test_an_older_snapshot_admits_nothing(hand: Hand) -> None:
    """It would count who held room before the lock was taken."""
    held = hand.held(concurrency_key="k")
    following = hand.enqueue(concurrency_key="k")
    hand.conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    try:
        with hand.conn.transaction():
            assert hand.settle("complete", held) is True
    finally:
        hand.conn.isolation_level = None
    assert _ready(hand) == []
    hand.sweep()
    assert _ready(hand) == [following]


def test_paused_jobs_give_their_room_back_without_a_worker_of_the_engine(hand: Hand) -> None:
    key = {"concurrency_key": "k", "concurrency_limit": 1}
    shut = hand.enqueue(queue="bulk", **key)
    assert hand.sweep()["admitted"] == 1
    hand.call("pause", "bulk")
    able = hand.enqueue(queue="open", **key)
    assert hand.sweep()["admitted"] == 1
    assert (hand.state(shut), hand.state(able)) == ("blocked", "ready")
    (claimed,) = hand.claim("open")
    assert claimed["id"] == able
    hand.call("resume", "bulk")
    assert hand.settle("complete", claimed)
    assert hand.state(shut) == "ready"
