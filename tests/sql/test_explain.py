from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from headway.core.duration import in_words
from tests.sql.hand import Hand


def _worker(hand: Hand, *, queues: list[str], tasks: list[str], lease: str = "1 hour") -> int:
    """A worker's row, as one leaves it that is alive and does nothing."""
    return hand.value(
        "insert into worker (name, version, slots, queues, tasks, started_at, seen_at, expires_at) "
        "values ('elsewhere:1', '0', 10, %s, %s, now(), now(), now() + %s::interval) returning id",
        Jsonb(queues),
        Jsonb(tasks),
        lease,
    )


def _why(hand: Hand, job_id: Any) -> list[str]:
    """The reasons, with the time that passed since the test began left out."""
    passed = r"\b[0-9.]+(ms|s|m|h)( [0-9]+(s|m))?\b"
    return re.sub(passed, "0s", hand.call("explain", job_id)).split("\n")


# -- ended, or never there ------------------------------------------------------------------------


def test_no_such_job(hand: Hand) -> None:
    job_id = uuid4()
    assert hand.call("explain", job_id) == (
        f"there is no job {job_id}: it was never made, was not kept, or its time in the archive is over"
    )


def test_how_it_ended(hand: Hand) -> None:
    done, failed = hand.held(queue="a"), hand.held("order", queue="b", step="ship", max_attempts=3)
    hand.settle("complete", done)
    hand.settle("fail", failed, "no van\nleft", again=False)
    cancelled, expired = hand.enqueue(), hand.enqueue(ttl="1 hour")
    hand.call("cancel", cancelled)
    hand.rows("update job set expires_at = now()")
    hand.sweep()
    assert _why(hand, done["id"]) == ["it succeeded 0s ago"]
    again = "`headway job retry {}` runs it again"
    assert _why(hand, failed["id"]) == [
        "it failed 0s ago, at attempt 1 of 3 of step ship: Failed: no van; "
        + again.format(failed["id"])
    ]
    assert _why(hand, cancelled) == ["it was cancelled 0s ago; " + again.format(cancelled)]
    assert _why(hand, expired) == [
        "it expired 0s ago: its time to live passed while it waited; " + again.format(expired)
    ]


# -- running --------------------------------------------------------------------------------------


def test_it_runs(hand: Hand) -> None:
    claimed = hand.held(max_attempts=3)
    worker = hand.row("select id, name from worker")
    runs = f"it has run for 0s on worker {worker['id']} ({worker['name']}), attempt 1 of 3"
    assert _why(hand, claimed["id"]) == [runs]
    hand.call("cancel", claimed["id"])
    hand.lose_consumers()
    assert _why(hand, claimed["id"]) == [
        runs,
        "it was asked to stop",
        f"worker {worker['id']} was lost; another worker takes the job back as soon as one is alive",
    ]


# -- scheduled ------------------------------------------------------------------------------------


def test_it_is_not_due_yet(hand: Hand) -> None:
    made = hand.enqueue(delay="100 min")
    assert hand.call("explain", made).startswith("it is due in 1h ")
    hand.rows("update job set attempt = 1")
    assert hand.call("explain", made).endswith("m (attempt 1 of 20 failed)")


def test_it_is_due(hand: Hand) -> None:
    made = hand.enqueue(delay="1 hour")
    hand.rows("update job set run_at = now()")
    alone = "it is due, but no worker is alive; start one: headway worker module:hw"
    assert _why(hand, made) == [alone]
    _worker(hand, queues=["x"], tasks=["x"])
    assert _why(hand, made) == ["it is due, and a worker is about to make it ready"]


def test_its_time_to_live_has_passed(hand: Hand) -> None:
    made = hand.enqueue(ttl="1 hour", delay="2 hours")
    hand.rows("update job set expires_at = now()")
    reasons = _why(hand, made)
    assert reasons[0] == "its time to live passed 0s ago, and it is about to end as expired"
    assert reasons[1].startswith("it is due in ")


# -- blocked --------------------------------------------------------------------------------------


def test_its_key_is_in_use(hand: Hand) -> None:
    held = hand.held(concurrency_key="acme")
    first, second = (hand.enqueue(concurrency_key="acme") for _ in range(2))
    in_use = f"key acme has 1 of 1 in use, by job {held['id']} (running)"
    assert _why(hand, first) == [in_use, "it is the next in line"]
    assert _why(hand, second) == [in_use, "it is number 2 in line"]
    urgent = hand.enqueue(concurrency_key="acme", priority=5)
    assert _why(hand, urgent) == [in_use, "it is the next in line"]


def test_its_key_is_in_use_by_many(hand: Hand) -> None:
    made = [hand.enqueue(concurrency_key="acme", concurrency_limit=5) for _ in range(6)]
    hand.sweep()
    holders = sorted(made[:5])
    named = ", ".join(f"job {job} (ready)" for job in holders[:3])
    assert _why(hand, made[5])[0] == f"key acme has 5 of 5 in use, by {named} and 2 more"


def test_its_line_is_long(hand: Hand) -> None:
    hand.rows("select enqueue('greet', concurrency_key => 'acme') from generate_series(1, 1001)")
    assert _why(hand, hand.enqueue(concurrency_key="acme")) == [
        "over 1000 others are before it in line"
    ]


def test_there_is_room_under_its_key(hand: Hand) -> None:
    made = hand.enqueue(concurrency_key="acme")
    assert _why(hand, made) == [
        "key acme has room for it, but no worker is alive; start one: headway worker module:hw"
    ]
    _worker(hand, queues=["x"], tasks=["x"])
    assert _why(hand, made) == ["key acme has room for it, and a worker is about to admit it"]


# -- ready ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [False, True])
def test_no_worker_is_alive(hand: Hand, lost: bool) -> None:
    if lost:
        _worker(hand, queues=["mail"], tasks=["greet"], lease="-1 s")
    made = hand.enqueue(queue="mail")
    assert _why(hand, made) == ["no worker is alive; start one: headway worker module:hw"]


def test_nobody_serves_the_queue(hand: Hand) -> None:
    _worker(hand, queues=["default"], tasks=["greet"])
    made = hand.enqueue(queue="mail")
    assert _why(hand, made) == ["no live worker serves queue mail; start one with -q mail"]


def test_g8_nobody_knows_the_task_or_the_step(hand: Hand) -> None:
    _worker(hand, queues=["mail"], tasks=["other", "order"])
    made = hand.enqueue(queue="mail")
    step = hand.enqueue("order", queue="mail", step="ship")
    unknown = "no live worker knows {}; deploy an app that defines it"
    assert _why(hand, made) == [unknown.format("task greet")]
    assert _why(hand, step) == [unknown.format("step ship of order")]


def test_one_knows_the_task_and_another_serves_the_queue(hand: Hand) -> None:
    _worker(hand, queues=["default"], tasks=["greet"])
    _worker(hand, queues=["mail"], tasks=["other"])
    made = hand.enqueue(queue="mail")
    assert _why(hand, made) == ["no live worker that knows task greet serves queue mail"]


def test_the_queue_is_paused_by_someone_for_a_reason(hand: Hand) -> None:
    _worker(hand, queues=["mail"], tasks=["greet"])
    made = hand.enqueue(queue="mail")
    hand.call("pause", "mail", "provider down", actor="ada")
    assert _why(hand, made) == [
        "queue mail is paused by ada: provider down; `headway queue resume mail` opens it"
    ]


def test_it_only_waits_for_its_turn(hand: Hand) -> None:
    _worker(hand, queues=["mail"], tasks=["greet"])
    hand.enqueue(queue="mail", priority=-1)
    first, second = (hand.enqueue(queue="mail") for _ in range(2))
    waits = "it waits for a free slot of a worker, "
    assert _why(hand, first) == [waits + "next in its queue"]
    assert _why(hand, second) == [waits + "after 1 other of its queue"]
    hand.rows("select enqueue('greet', queue => 'mail', priority => 1) from generate_series(1, 2)")
    assert _why(hand, second) == [waits + "after 3 others of its queue"]
    hand.rows(
        "select enqueue('greet', queue => 'mail', priority => 1) from generate_series(1, 998)"
    )
    assert _why(hand, second) == [waits + "after over 1000 others of its queue"]


def test_a_consumer_in_sql_knows_every_task(hand: Hand) -> None:
    hand.held()
    made = hand.enqueue()
    assert _why(hand, made) == ["it waits for a free slot of a worker, next in its queue"]


@pytest.mark.parametrize("seconds", [0, 0.25, 1, 1.5, 9.96, 10.4, 59.6, 60, 125, 3600, 90000, 1e8])
def test_durations_are_said_as_python_says_them(hand: Hand, seconds: float) -> None:
    assert hand.call("in_words", seconds) == in_words(seconds)
