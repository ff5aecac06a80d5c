from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.sql.hand import Hand


def _declare(hand: Hand, name: str, **columns: Any) -> None:
    declared = {"queue": "mail", "priority": 3, "max_attempts": 9} | columns
    names = ", ".join(["name", *declared])
    marks = ", ".join(["%s"] * (len(declared) + 1))
    hand.rows(f"insert into task ({names}) values ({marks})", name, *declared.values())


def test_a_task_that_nobody_declared_gets_the_defaults(hand: Hand) -> None:
    job = hand.job(hand.call("enqueue", "greet"))
    assert (job["queue"], job["priority"], job["max_attempts"]) == ("default", 0, 20)
    assert (job["input"], job["step"], job["state"]) == ({}, "", "r")
    assert job["id"].version == 7
    assert job["headers"] is job["expires_at"] is job["key"] is job["unique_key"] is None


def test_what_is_left_open_is_as_the_task_was_declared(hand: Hand) -> None:
    _declare(hand, "greet")
    job = hand.job(hand.enqueue())
    assert (job["queue"], job["priority"], job["max_attempts"]) == ("mail", 3, 9)
    job = hand.job(hand.enqueue(queue="q", priority=0, max_attempts=1))
    assert (job["queue"], job["priority"], job["max_attempts"]) == ("q", 0, 1)


def test_a_flow_starts_at_its_first_step_as_that_was_declared(hand: Hand) -> None:
    _declare(hand, "order", first_step="reserve")
    _declare(hand, "order/reserve", queue="stock", priority=7)
    _declare(hand, "order/ship", queue="vans")
    job = hand.job(hand.enqueue("order"))
    assert (job["step"], job["queue"], job["priority"]) == ("reserve", "stock", 7)
    job = hand.job(hand.enqueue("order", step="ship"))
    assert (job["step"], job["queue"]) == ("ship", "vans")


def test_every_option_reaches_the_job(hand: Hand) -> None:
    job_id = uuid4()
    at = datetime(2040, 1, 1, tzinfo=UTC)
    made = hand.enqueue(
        "greet",
        {"name": "Ada"},
        queue="mail",
        at=at,
        priority=-5,
        max_attempts=2,
        ttl="1 hour",
        headers={"tenant": "acme"},
        concurrency_key="acme",
        concurrency_limit=4,
        unique_key="ada",
        scope="waiting",
        id=job_id,
    )
    job = hand.job(made)
    assert made == job_id
    assert job["expires_at"] - job["created_at"] == timedelta(hours=1)
    expected = {
        "task": "greet",
        "input": {"name": "Ada"},
        "queue": "mail",
        "run_at": at,
        "priority": -5,
        "max_attempts": 2,
        "headers": {"tenant": "acme"},
        "key": "acme",
        "key_limit": 4,
        "ordered": False,
        "unique_key": "ada",
        "until_claimed": True,
        "state": "s",
    }
    assert {name: job[name] for name in expected} == expected


@pytest.mark.parametrize("delay", [timedelta(minutes=5), "5 min", "300 s", "PT5M"])
def test_a_delay_is_an_interval(hand: Hand, delay: object) -> None:
    job = hand.job(hand.enqueue(delay=delay))
    assert (job["run_at"] - job["created_at"], job["state"]) == (timedelta(minutes=5), "s")


def test_a_keyed_job_waits_for_room_and_an_ordered_one_says_so(hand: Hand) -> None:
    job = hand.job(hand.enqueue(concurrency_key="k", ordered=True))
    assert (job["state"], job["key_limit"], job["ordered"], job["holds"]) == ("b", 1, True, False)


def test_g1_the_job_is_there_if_the_transaction_commits(hand: Hand) -> None:
    with hand.conn.transaction(force_rollback=True):
        hand.enqueue()
    assert hand.rows("select id from job") == []
    with hand.conn.transaction():
        made = hand.enqueue()
    assert hand.state(made) == "ready"


def test_workers_are_notified_of_the_lane(hand: Hand) -> None:
    with hand.listening() as heard:
        hand.enqueue(queue="mail", priority=4)
        hand.enqueue(delay="1 hour")
        hand.enqueue(concurrency_key="k")
        assert heard() == ["ready 4 mail", "later", "blocked"]


LONG = "x" * 201
BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "input that is an array": ({"input": Jsonb([1])}, "input is array", "arguments of the task"),
    "input that is a text": ({"input": Jsonb("x")}, "input is string", "arguments of the task"),
    "an empty task": ({"task": ""}, "task '' is not a name", "1 to 200 printable characters"),
    "no task": ({"task": None}, "task '' is not a name", "1 to 200 printable characters"),
    "a long task": ({"task": LONG}, "is not a name", "1 to 200 printable characters"),
    "a task with a newline": ({"task": "a\nb"}, "is not a name", "printable characters"),
    "a task with a space": ({"task": " a"}, "is not a name", "without spaces at its ends"),
    "a step as the task": ({"task": "order/ship"}, "separates a flow from its step", "as the step"),
    "an empty queue": ({"queue": ""}, "queue '' is not a name", "1 to 200 printable characters"),
    "a long key": ({"concurrency_key": LONG}, "concurrency_key", "1 to 200 printable characters"),
    "an empty unique key": ({"unique_key": ""}, "unique_key", "1 to 200 printable characters"),
    "a negative delay": ({"delay": "-1 s"}, "delay -1.000000 is not between", "'90 s'"),
    "a delay of an age": ({"delay": "101 years"}, "is not between 0 and 100 years", "'90 s'"),
    "a negative ttl": ({"ttl": "-1 min"}, "ttl", "'90 s'"),
    "two moments": ({"delay": "1 s", "at": datetime.now(UTC)}, "are both given", "one of them"),
    "never": ({"at": "infinity"}, "is not a moment", "pause their queue"),
    "a high priority": ({"priority": 32768}, "priority 32768", "-32768 to 32767"),
    "no attempt": ({"max_attempts": 0}, "max_attempts 0", "1 means no retry"),
    "headers of numbers": ({"headers": {"a": 1}}, "headers", '{"tenant": "acme"}'),
    "headers in a list": ({"headers": Jsonb(["a"])}, "headers", '{"tenant": "acme"}'),
    "a limit without a key": (
        {"concurrency_limit": 2},
        "without a concurrency_key",
        "concurrency_key",
    ),
    "order without a key": ({"ordered": True}, "without a concurrency_key", "concurrency_key"),
    "no room at all": (
        {"concurrency_key": "k", "concurrency_limit": 0},
        "concurrency_limit 0",
        "1 to 32000",
    ),
    "order side by side": (
        {"concurrency_key": "k", "concurrency_limit": 2, "ordered": True},
        "one job at a time",
        "at 1",
    ),
    "an unknown policy": ({"on_taken": "merge"}, "'merge' is not known", "skip, replace or reject"),
    "an unknown scope": ({"scope": "ever"}, "'ever' is not known", "unfinished or waiting"),
    "a period of nothing": ({"period": "1 h"}, "belongs to a unique key", "unique_key"),
    "a period that replaces": (
        {"unique_key": "u", "period": "1 h", "on_taken": "replace"},
        "does not go with replace",
        "skip or reject",
    ),
}


@pytest.mark.parametrize("given", BAD)
def test_bad_input_is_refused_with_what_to_do(hand: Hand, given: str) -> None:
    options, message, hint = BAD[given]
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        hand.call("enqueue", **{"task": "greet"} | options)
    assert message in (refused.value.diag.message_primary or "")
    assert hint in (refused.value.diag.message_hint or "")
    assert hand.rows("select id from job") == []


# -- unique keys ----------------------------------------------------------------------------------


def test_a_taken_key_returns_the_job_that_has_it(hand: Hand) -> None:
    first = hand.enqueue(unique_key="u")
    assert hand.enqueue(unique_key="u") == first
    assert hand.enqueue("other", unique_key="u") != first
    (claimed,) = hand.rows("select * from claim('default', tasks => '{greet}')")
    assert hand.enqueue(unique_key="u") == first
    hand.settle("complete", claimed)
    assert hand.enqueue(unique_key="u") != first


def test_a_taken_key_can_be_an_error_that_names_the_holder(hand: Hand) -> None:
    first = hand.enqueue(unique_key="u")
    with pytest.raises(psycopg.Error) as taken:
        hand.enqueue(unique_key="u", on_taken="reject")
    assert (taken.value.sqlstate, taken.value.diag.message_detail) == ("HW001", str(first))


def test_a_taken_key_can_replace_what_waits(hand: Hand) -> None:
    first = hand.enqueue("greet", {"n": 1}, unique_key="u", on_taken="replace")
    assert hand.enqueue("greet", {"n": 2}, unique_key="u", on_taken="replace") == first
    assert hand.job(first)["input"] == {"n": 2}
    hand.claim()
    assert hand.enqueue("greet", {"n": 3}, unique_key="u", on_taken="replace") != first


def test_a_key_can_be_taken_for_a_period_whatever_becomes_of_the_job(hand: Hand) -> None:
    first = hand.enqueue(unique_key="u", period="1 hour")
    hand.call("cancel", first)
    assert hand.enqueue(unique_key="u", period="1 hour") == first
    hand.rows("update unique_period set until = now()")
    assert hand.enqueue(unique_key="u", period="1 hour") != first


# -- repetition, many at once, the inbox ----------------------------------------------------------


def test_a_repetition_with_the_same_id_makes_nothing_new(hand: Hand) -> None:
    job_id = uuid4()
    assert hand.enqueue(id=job_id) == hand.enqueue(id=job_id) == job_id
    (claimed,) = hand.claim("default", 10)
    hand.settle("complete", claimed)
    assert hand.enqueue(id=job_id) == job_id
    assert hand.rows("select state from jobs") == [{"state": "succeeded"}]


def test_many_are_made_in_one_statement_in_order(hand: Hand) -> None:
    jobs = [
        {"task": "a", "input": {"n": 1}, "unique_key": "u"},
        {"task": "b", "delay": 90, "priority": 2, "queue": "q"},
        {"task": "a", "input": {"n": 2}, "unique_key": "u"},
        {"task": "c", "delay": "2 min"},
    ]
    made = [row["id"] for row in hand.rows("select enqueue_many(%s) as id", Jsonb(jobs))]
    assert made[0] == made[2]
    a, b, c = (hand.job(made[index]) for index in (0, 1, 3))
    assert (a["task"], a["input"]) == ("a", {"n": 1})
    assert (b["queue"], b["priority"]) == ("q", 2)
    assert b["run_at"] - b["created_at"] == timedelta(seconds=90)
    assert (c["task"], c["run_at"] - c["created_at"]) == ("c", timedelta(minutes=2))
    assert len(hand.rows("select id from job")) == 3
    assert hand.rows("select enqueue_many('[]')") == []


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ({"task": "a"}, "not a JSON array"),
        (["a"], "not a JSON object"),
        ([{"task": "ok"}, {"task": "a", "args": {}}], "a job has no 'args'"),
        ([{"task": "ok"}, {"task": "a", "delay": "soon"}], 'delay "soon"'),
        ([{"task": "ok"}, {"task": "a", "delay": True}], "delay true"),
        ([{"task": "ok"}, {"input": {}}], "task '' is not a name"),
    ],
)
def test_many_are_made_all_or_none(hand: Hand, jobs: Any, message: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=message):
        hand.rows("select enqueue_many(%s)", Jsonb(jobs))
    assert hand.rows("select id from job") == []


def test_a_row_inserted_into_the_inbox_is_a_job(hand: Hand) -> None:
    made = hand.value("insert into inbox (task) values ('greet') returning id")
    assert (hand.job(made)["input"], hand.job(made)["queue"]) == ({}, "default")
    hand.rows(
        "insert into inbox (task, input, queue, delay, priority, unique_key) "
        "select 'greet', jsonb_build_object('n', n), 'mail', '1 hour', 3, n::text "
        "from generate_series(1, 3) n"
    )
    jobs = hand.rows("select * from job where queue = 'mail' order by input")
    assert [job["input"] for job in jobs] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert {(job["state"], job["priority"]) for job in jobs} == {("s", 3)}
    assert hand.rows("select * from inbox") == []


def test_copy_fills_the_inbox(hand: Hand) -> None:
    with hand.conn.cursor().copy("copy inbox (task, input) from stdin") as copy:
        copy.write_row(("greet", '{"n": 1}'))
        copy.write_row(("greet", '{"n": 2}'))
    assert len(hand.rows("select id from job where task = 'greet'")) == 2


def test_the_inbox_refuses_what_enqueue_refuses(hand: Hand) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="not a JSON object"):
        hand.rows("insert into inbox (task, input) values ('greet', '[]')")
