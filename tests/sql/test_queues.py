"""headway.purge, headway.move and headway.metrics, from any language; and who may call them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway.store import migrate
from tests.sql.hand import Hand

DENIED = psycopg.errors.InsufficientPrivilege


def _each_state(hand: Hand, queue: str = "mail") -> dict[str, Any]:
    """One running, one ready, one scheduled, one blocked."""
    hand.engine_lives()  # nobody but the test admits
    running = hand.enqueue(queue=queue)
    hand.claim(queue)
    return {
        "running": running,
        "ready": hand.enqueue(queue=queue),
        "scheduled": hand.enqueue("remind", queue=queue, delay="1 hour"),
        "blocked": hand.enqueue(queue=queue, concurrency_key="k"),
    }


def test_purge_cancels_what_waits_and_says_how_many(hand: Hand) -> None:
    made = _each_state(hand)
    other = hand.enqueue(queue="other")
    assert hand.call("purge", "mail") == 3
    assert hand.call("purge", "mail") == 0
    states = {label: hand.state(job) for label, job in made.items()}
    assert states == {
        "running": "running",
        "ready": "cancelled",
        "scheduled": "cancelled",
        "blocked": "cancelled",
    }
    assert hand.state(other) == "ready"
    assert hand.ended(made["ready"])["error"]["message"] == "its queue was purged while it waited"
    assert hand.call("retry", made["ready"]) is True
    assert hand.state(made["ready"]) == "ready"


def test_purge_of_one_task(hand: Hand) -> None:
    made = _each_state(hand)
    assert hand.call("purge", "mail", task="remind") == 1
    assert hand.state(made["scheduled"]) == "cancelled"
    assert hand.state(made["ready"]) == "ready"


def test_purge_is_a_part_of_the_callers_transaction(hand: Hand, other: Hand) -> None:
    made = [hand.enqueue(queue="mail") for _ in range(3)]
    with hand.conn.transaction(force_rollback=True):
        assert hand.call("purge", "mail") == 3
        assert other.claim("mail", 10) == [], "others do not get what is about to go"
    assert [hand.state(job) for job in made] == ["ready"] * 3


def test_purge_of_many_goes_through_all_of_them(hand: Hand) -> None:
    hand.rows(
        "select enqueue_many((select jsonb_agg(jsonb_build_object('task', 'greet', 'queue', "
        "case when n % 2 = 0 then 'mail' else 'other' end)) from generate_series(1, 3000) n))"
    )
    assert hand.call("purge", "mail") == 1_500
    assert hand.value("select count(*) from job where queue = 'other'") == 1_500
    metrics = hand.row("select * from metrics('mail')")
    assert (metrics["ready"], metrics["cancelled"]) == (0, 1_500)


def test_purge_frees_the_room_under_a_key(hand: Hand) -> None:
    purged = hand.enqueue(queue="mail", concurrency_key="k")
    hand.sweep()
    behind = hand.enqueue(queue="other", concurrency_key="k")
    with hand.listening() as heard:
        assert hand.call("purge", "mail") == 1
        assert heard() == [f"room {purged}"]
    hand.sweep()
    assert hand.state(behind) == "ready"


def test_move_takes_what_waits_to_another_queue(hand: Hand) -> None:
    made = _each_state(hand)
    with hand.listening() as heard:
        assert hand.call("move", "mail", "slow") == 3
        assert heard() == ["ready 0 slow"]
    rows = hand.rows("select id, queue, state from jobs")
    states = {row["id"]: (row["queue"], row["state"]) for row in rows}
    assert states == {
        made["running"]: ("mail", "running"),
        made["ready"]: ("slow", "ready"),
        made["scheduled"]: ("slow", "scheduled"),
        made["blocked"]: ("slow", "blocked"),
    }
    assert hand.call("move", "slow", "mail", task="remind") == 1


def test_move_keeps_the_order(hand: Hand) -> None:
    made = [hand.enqueue(input_={"n": n}, queue="mail", priority=n % 2) for n in range(6)]
    assert hand.call("move", "mail", "slow") == 6
    claimed = hand.claim("slow", 10)
    assert [row["id"] for row in claimed] == [*made[1::2], *made[0::2]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("purge", ""), "queue"),
        (("purge", None), "queue"),
        (("move", "", "b"), "queue"),
        (("move", "a", None), "target"),
        (("move", "a", "a"), "queue and target are both a"),
    ],
)
def test_what_cannot_be_meant_is_refused(hand: Hand, call: tuple[Any, ...], words: str) -> None:
    with pytest.raises(psycopg.Error, match=words):
        hand.call(*call)


def test_metrics_are_for_one_queue_or_for_all(hand: Hand) -> None:
    _each_state(hand)
    hand.enqueue(queue="other")
    (mail,) = hand.rows("select * from metrics('mail')")
    counts = ("ready", "scheduled", "blocked", "running", "waiting")
    assert [mail[name] for name in counts] == [1, 1, 1, 1, 0]
    assert None not in (mail["oldest_ready_age"], mail["newest_ready_age"])
    assert [row["queue"] for row in hand.rows("select * from metrics()")] == ["mail", "other"]
    (nothing,) = hand.rows("select * from metrics('never heard of')")
    assert (nothing["ready"], nothing["oldest_ready_age"]) == (0, None)


@pytest.fixture(scope="module")
def granted(dsn: str) -> Iterator[str]:
    """A schema with roles, which belong to the whole cluster: both have a name of their own."""
    name = f"hw_queue_roles_{os.getpid()}"
    migrate.run_sync(dsn, name, roles=True)
    yield name
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
        for kind in ("producer", "worker", "reader", "operator"):
            role = sql.Identifier(f"{name}_{kind}")
            conn.execute(sql.SQL("drop owned by {}").format(role))
            conn.execute(sql.SQL("drop role {}").format(role))


@pytest.fixture
def acting(dsn: str, granted: str) -> Iterator[Callable[[str], Hand]]:
    """Gives a connection that is one of the roles."""
    opened: list[Hand] = []

    def act(kind: str) -> Hand:
        opened.append(Hand(make_conninfo(dsn, options=f"-c role={granted}_{kind}"), granted))
        return opened[-1]

    yield act
    for hand in opened:
        hand.close()


def test_an_operator_purges_moves_and_measures(acting: Callable[[str], Hand]) -> None:
    producer, operator = acting("producer"), acting("operator")
    for _ in range(3):
        producer.enqueue(queue="mail")
    assert operator.call("move", "mail", "slow") == 3
    assert operator.row("select ready from metrics('slow')") == {"ready": 3}
    assert operator.call("purge", "slow") == 3
    assert operator.row("select cancelled from metrics('slow')") == {"cancelled": 3}


def test_a_reader_measures_and_changes_nothing(acting: Callable[[str], Hand]) -> None:
    acting("producer").enqueue(queue="r")
    reader = acting("reader")
    assert reader.row("select ready from metrics('r')") == {"ready": 1}
    for call in (("purge", "r"), ("move", "r", "s")):
        with pytest.raises(DENIED):
            reader.call(*call)


def test_who_only_makes_jobs_neither_purges_nor_measures(acting: Callable[[str], Hand]) -> None:
    producer = acting("producer")
    for call in (("purge", "r"), ("move", "r", "s"), ("metrics", "r")):
        with pytest.raises(DENIED):
            producer.call(*call)


def test_a_worker_may_do_what_the_engine_does(acting: Callable[[str], Hand]) -> None:
    worker = acting("worker")
    worker.enqueue(queue="w")
    assert worker.call("move", "w", "v") == 1
    assert worker.call("purge", "v") == 1
