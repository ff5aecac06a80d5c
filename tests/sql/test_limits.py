"""Limits from any language: set, seen, taken back, kept by consumers; and what is refused."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from headway.core.limits import per_second
from tests.sql.hand import Hand


@pytest.fixture(autouse=True)
def _tokens(hand: Hand) -> None:
    """No key has spent any."""
    hand.rows("delete from bucket")
    hand.rows("delete from start")


def _control(hand: Hand, name: str) -> dict[str, Any]:
    return hand.row("select * from controls where name = %s", name)


def _declare(hand: Hand, kind: str, name: str, **numbers: Any) -> None:
    """Declare limits as a worker does."""
    columns = ", ".join(numbers)
    marks = ", ".join(["%s"] * len(numbers))
    query = (
        f"insert into control (kind, name, declared, {columns}) values (%s, %s, '{{}}', {marks})"
    )
    hand.rows(query, kind, name, *numbers.values())


def test_a_limit_is_set_seen_and_taken_back(hand: Hand) -> None:
    hand.call("set_limit", "mail", 5, "90/min")
    row = _control(hand, "mail")
    assert (row["kind"], row["concurrency"], row["rate_per_second"], row["burst"]) == (
        "queue",
        5,
        1.5,
        1,
    )
    assert row["changed_by"] == hand.value("select current_user")
    hand.call("set_limit", task="flow/step", rate="50/s", actor="ada")
    row = _control(hand, "flow/step")
    assert (row["kind"], row["concurrency"], row["rate_per_second"], row["burst"]) == (
        "task",
        None,
        50,
        5,
    )
    hand.call("set_limit", keys_of="sync", concurrency=2, rate="1/10s", burst=3)
    assert (_control(hand, "sync")["kind"], _control(hand, "sync")["burst"]) == ("keys", 3)
    assert hand.call("reset_limit", "mail") is True
    assert hand.call("reset_limit", "mail") is False
    assert hand.call("reset_limit", task="flow/step") is True
    assert hand.call("reset_limit", keys_of="sync") is True
    assert hand.value("select count(*) from controls") == 0


def test_a_number_left_out_is_no_limit(hand: Hand) -> None:
    hand.call("set_limit", "mail", 5, "90/min")
    hand.call("set_limit", "mail", rate="1/s")
    assert _control(hand, "mail")["concurrency"] is None
    hand.call("set_limit", "mail")
    row = _control(hand, "mail")
    assert (row["concurrency"], row["rate_per_second"], row["burst"]) == (None, None, None)
    assert row["changed_at"] is not None, "it is what someone said, against what code declares"


@pytest.mark.parametrize("rate", ["10/s", "100/min", "1/10s", "2.5 / hour", "7/d", " 3/2m "])
def test_rates_are_read_as_in_python(hand: Hand, rate: str) -> None:
    assert hand.call("per_second", rate) == pytest.approx(per_second(rate))


def test_a_claim_keeps_the_limit_of_its_queue(hand: Hand) -> None:
    hand.call("set_limit", "default", 2)
    for priority in (0, 0, 5, 5):
        hand.enqueue(priority=priority)
    first = hand.claim(count=10)
    assert [one["priority"] for one in first] == [5, 5]
    assert hand.claim(count=10) == []
    assert hand.settle("complete", first[0])
    assert [one["priority"] for one in hand.claim(count=10)] == [0]


def test_a_claim_keeps_the_limits_of_its_tasks(hand: Hand) -> None:
    hand.call("set_limit", task="narrow", concurrency=1)
    for task in ("narrow", "narrow", "wide", "wide"):
        for queue in ("default", "other"):
            hand.enqueue(task, queue=queue)
    assert sorted(one["task"] for one in hand.claim(count=10)) == ["narrow", "wide", "wide"]
    assert [one["task"] for one in hand.claim("other", count=10)] == ["wide", "wide"]
    assert hand.claim("other", count=10, tasks=["narrow"]) == []


def test_a_claim_takes_tokens_and_gives_them_back_when_it_is_rolled_back(hand: Hand) -> None:
    hand.call("set_limit", "default", rate="1/h", burst=2)
    for _ in range(5):
        hand.enqueue()
    with hand.conn.transaction():
        assert len(hand.claim(count=10)) == 2
        raise psycopg.Rollback
    assert len(hand.claim(count=10)) == 2
    assert hand.claim(count=10) == []


def test_an_open_transaction_has_the_limit_and_holds_up_nobody(hand: Hand, other: Hand) -> None:
    """Another consumer skips the shut limit, and gets jobs without one."""
    hand.call("set_limit", task="narrow", concurrency=5)
    for task in ("narrow", "narrow", "wide"):
        hand.enqueue(task)
    with hand.conn.transaction():
        (claimed,) = hand.claim(tasks=["narrow"])
        assert [one["task"] for one in other.claim(count=10)] == ["wide"]
        assert hand.settle("complete", claimed)
    assert [one["task"] for one in other.claim(count=10)] == ["narrow"]


def test_two_claims_of_one_transaction_count_each_other(hand: Hand) -> None:
    hand.call("set_limit", task="narrow", concurrency=2)
    for queue in ("a", "b", "b"):
        hand.enqueue("narrow", queue=queue)
    with hand.conn.transaction():
        assert len(hand.claim("a", count=10)) == 1
        assert len(hand.claim("b", count=10)) == 1
        assert hand.claim("b", count=10) == []


def test_an_older_snapshot_passes_no_limit(hand: Hand, other: Hand) -> None:
    """It cannot see what runs; so it gets nothing that is under one."""
    hand.call("set_limit", task="narrow", concurrency=1)
    for task, queue in (("narrow", "a"), ("narrow", "b"), ("wide", "b")):
        hand.enqueue(task, queue=queue)
    other.conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with other.conn.transaction():
        other.rows("select 1 from job")
        assert len(hand.claim("a")) == 1
        assert [one["task"] for one in other.claim("b", count=10)] == ["wide"]


def test_what_runs_counts_when_a_limit_is_taken_back(hand: Hand) -> None:
    _declare(hand, "task", "greet", concurrency=1)
    hand.rows("""update control set declared = '{"concurrency": 1}'""")
    hand.call("set_limit", task="greet")
    for _ in range(3):
        hand.enqueue()
    first, second = hand.claim(count=2)
    assert hand.call("reset_limit", task="greet") is True
    hand.sweep()  # the sweep marks running jobs, or workers do that learn of the limit
    hand.settle("complete", first)
    assert hand.claim() == []
    hand.settle("complete", second)
    assert len(hand.claim()) == 1


def test_who_waited_for_room_hears_of_it(hand: Hand) -> None:
    hand.call("set_limit", "default", 1)
    held = hand.held()
    with hand.listening() as heard:
        hand.settle("complete", held)
        assert {"open queue default", "open task greet"} <= set(heard())


# -- by key ---------------------------------------------------------------------------------------


def test_a_limit_key_puts_a_job_under_the_limit_of_its_task(hand: Hand) -> None:
    _declare(hand, "keys", "sync", concurrency=1)
    made = [hand.enqueue("sync", limit_key=tenant) for tenant in ("acme", "acme", "zeta")]
    plain = hand.enqueue("sync")
    row = hand.job(made[0])
    assert (row["key"], row["key_limit"], row["ordered"]) == ("sync/acme", 0, False)
    hand.sweep()
    assert {one["id"] for one in hand.claim(count=10)} == {made[0], made[2], plain}
    hand.call("set_limit", keys_of="sync", concurrency=2)
    hand.sweep()
    assert [one["id"] for one in hand.claim(count=10)] == [made[1]]


def test_a_limit_key_of_a_step_and_of_many_jobs(hand: Hand) -> None:
    step = hand.enqueue("order", step="pay", limit_key="acme")
    assert hand.job(step)["key"] == "order/pay/acme"
    document = [{"task": "sync", "limit_key": "acme"}, {"task": "sync", "limit_key": None}]
    first, second = hand.rows("select * from enqueue_many(%s) id", Jsonb(document))
    assert hand.job(first["id"])["key"] == "sync/acme"
    assert hand.job(second["id"])["key"] is None
    (inserted,) = hand.rows("insert into inbox (task, limit_key) values ('sync', 'z') returning id")
    assert hand.job(inserted["id"])["key"] == "sync/z"


def test_each_key_has_its_tokens_where_no_worker_lives(hand: Hand) -> None:
    _declare(hand, "keys", "sync", rate=1 / 3600, burst=2)
    for tenant in ("acme", "acme", "acme", "zeta"):
        hand.enqueue("sync", limit_key=tenant)
    hand.sweep()
    claimed = hand.claim(count=10)
    assert sorted(one["key"] for one in claimed) == ["sync/acme", "sync/acme", "sync/zeta"]
    # Settling one hands its room on, but there is no token.
    assert hand.settle("complete", claimed[0])
    hand.sweep()
    assert hand.claim(count=10) == []


# -- pauses ---------------------------------------------------------------------------------------


def test_pauses_of_a_task_and_of_a_key(hand: Hand) -> None:
    for task, key in (("a", None), ("b", "acme"), ("b", None)):
        hand.enqueue(task, concurrency_key=key)
    assert hand.call("pause", task="a", reason="deploy", actor="ada") is True
    assert hand.call("pause", key="acme", until="2100-01-01") is True
    assert hand.call("pause", task="a") is False, "it was paused already"
    hand.sweep()
    assert [(one["task"], one["key"]) for one in hand.claim(count=10)] == [("b", None)]
    row = _control(hand, "acme")
    assert (row["kind"], row["paused"], row["paused_until"].year) == ("key", True, 2100)
    assert hand.call("resume", task="a") is True
    assert hand.call("resume", key="acme") is True
    assert hand.call("resume", key="acme") is False
    hand.sweep()
    assert len(hand.claim(count=10)) == 2


def test_a_pause_whose_moment_has_passed_is_none(hand: Hand) -> None:
    hand.enqueue()
    hand.rows("select pause('default', until => now() + interval '1 h')")
    hand.rows("update control set paused_until = now() - interval '1 s'")
    assert hand.rows("select * from controls") == []
    assert len(hand.claim()) == 1


# -- why it waits ---------------------------------------------------------------------------------


def test_explain_says_which_limit_is_full(hand: Hand) -> None:
    hand.call("set_limit", "default", 1)
    hand.call("set_limit", task="greet", concurrency=1)
    hand.held()
    said = hand.call("explain", hand.enqueue()).splitlines()
    assert "queue default has 1 of 1 running" in said
    assert "task greet has 1 of 1 running" in said


def test_explain_says_when_there_is_a_token(hand: Hand) -> None:
    hand.call("set_limit", "default", rate="1/h", burst=1)
    hand.held()
    said = hand.call("explain", hand.enqueue())
    assert said.startswith("queue default may start the next in 59m 59s") or "in 1h" in said
    _declare(hand, "keys", "sync", rate=1 / 3600, burst=1)
    for _ in range(2):
        last = hand.enqueue("sync", queue="other", limit_key="acme")
    hand.sweep()
    waits = "it is the next in line, after 1 of key sync/acme that are ready and have not started"
    assert waits in hand.call("explain", last).splitlines()
    assert len(hand.claim("other", count=10)) == 1
    for _ in range(2):  # whether or not someone has added up what started
        said = hand.call("explain", last)
        assert "it is the next in line, and key sync/acme may start one in" in said
        hand.sweep()


def test_explain_says_when_there_is_a_token_while_all_slots_of_a_key_are_taken(hand: Hand) -> None:
    _declare(hand, "keys", "sync", concurrency=1, rate=1 / 3600, burst=1)
    waiting = [hand.enqueue("sync", limit_key="acme") for _ in range(3)][1:]
    hand.sweep()
    assert len(hand.claim(count=10)) == 1
    for job in waiting:
        used, token, place = hand.call("explain", job).splitlines()
        assert used.startswith("key sync/acme has 1 of 1 in use")
        assert token.startswith("key sync/acme may start the next in ")
        assert "in line" in place


def test_explain_says_that_nobody_has_declared_the_limits_it_waits_for(hand: Hand) -> None:
    hand.rows(
        "insert into worker (name, version, slots, queues, tasks, started_at, seen_at, expires_at) "
        "values ('w', '1', 1, '[]', '[]', now(), now(), now() + interval '1 h')"
    )
    made = hand.enqueue("sync", limit_key="acme")
    assert "which no worker has declared yet" in hand.call("explain", made)
    _declare(hand, "keys", "sync", concurrency=1)
    assert "no worker has declared" not in hand.call("explain", made)


def test_explain_names_the_actor_of_a_pause(hand: Hand) -> None:
    made = hand.enqueue(concurrency_key="acme")
    hand.sweep()
    hand.call("pause", key="acme", reason="too loud", actor="ada")
    hand.call("pause", task="greet", actor="bob")
    said = hand.call("explain", made).splitlines()
    assert "key acme is paused by ada: too loud; `headway queue resume --key acme` opens it" in said
    assert "task greet is paused by bob; `headway queue resume --task greet` opens it" in said


# -- what is refused ------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "nothing": ("set_limit", {"concurrency": 1}, "one of queue, task and keys_of"),
    "two": ("set_limit", {"queue": "a", "task": "b"}, "one of queue, task and keys_of"),
    "no name": ("set_limit", {"queue": ""}, "queue"),
    "below none": ("set_limit", {"queue": "a", "concurrency": -1}, "concurrency -1 is not from 0"),
    "none of each key": ("set_limit", {"keys_of": "a", "concurrency": 0}, "is not from 1 to"),
    "a burst alone": ("set_limit", {"queue": "a", "burst": 2}, "burst 2 is not"),
    "no burst": ("set_limit", {"queue": "a", "rate": "1/s", "burst": 0}, "burst 0 is not"),
    "no rate": ("set_limit", {"queue": "a", "rate": "often"}, "rate 'often' cannot be read"),
    "a rate in no time": (
        "set_limit",
        {"queue": "a", "rate": "1/0s"},
        "rate '1/0s' cannot be read",
    ),
    "too fast": ("set_limit", {"queue": "a", "rate": "9999999/s"}, "cannot be read"),
    "a negative rate": ("set_limit", {"queue": "a", "rate": "-1/s"}, "rate '-1/s' cannot be read"),
    "reset of nothing": ("reset_limit", {}, "one of queue, task and keys_of"),
    "pause of nothing": ("pause", {"reason": "why"}, "one of queue, task and key"),
    "pause of two": ("pause", {"task": "a", "key": "b"}, "one of queue, task and key"),
    "a pause for ever": ("pause", {"queue": "a", "until": "infinity"}, "is not in the future"),
    "a pause that is over": (
        "pause",
        {"queue": "a", "until": "2020-01-01"},
        "is not in the future",
    ),
    "resume of nothing": ("resume", {}, "one of queue, task and key"),
    "two keys": ("enqueue", {"task": "a", "limit_key": "k", "concurrency_key": "k"}, "both given"),
    "an empty key": ("enqueue", {"task": "a", "limit_key": ""}, "limit_key"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_with_a_hint(hand: Hand, case: str) -> None:
    function, given, words = REFUSED[case]
    with pytest.raises(psycopg.Error, match=words) as refused:
        hand.call(function, **given)
    assert refused.value.diag.message_hint, "what to do instead"
    assert hand.value("select count(*) from control") == 0
