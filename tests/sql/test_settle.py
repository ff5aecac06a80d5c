from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.sql.hand import Hand

SETTLING: dict[str, tuple[Any, ...]] = {
    "extend": ("1 min",),
    "complete": ({"ok": True},),
    "fail": ("why",),
    "release": (),
    "snooze": ("1 min",),
    "advance": ("ship", {"n": 1}),
}


@pytest.mark.parametrize("function", SETTLING)
def test_g2_a_claim_that_is_not_current_changes_nothing_anywhere(hand: Hand, function: str) -> None:
    given = SETTLING[function]
    held = hand.held(concurrency_key="k", unique_key="u")
    waiting = hand.enqueue(concurrency_key="k")
    ended = hand.held(queue="done")
    hand.settle("complete", ended)
    returned = hand.held(queue="returned")
    hand.settle("release", returned)
    hand.claim("returned")
    snoozed = hand.held(queue="snoozed")
    hand.settle("snooze", snoozed, "1 hour")
    before = hand.everything()
    for job_id, claim in [
        (held["id"], held["claim"] + 1),
        (held["id"], held["claim"] - 1),
        (held["id"], None),
        (waiting, 0),
        (ended["id"], ended["claim"]),
        (returned["id"], returned["claim"]),
        (snoozed["id"], snoozed["claim"]),
        (uuid4(), 1),
        (None, 1),
    ]:
        assert hand.call(function, job_id, claim, *given) is False
    assert hand.everything() == before
    assert hand.settle(function, held, *given) is True
    assert hand.everything() != before


def test_a_job_succeeds_with_its_result(hand: Hand) -> None:
    claimed = hand.held()
    assert hand.settle("complete", claimed, {"ok": True}) is True
    job = hand.ended(claimed["id"])
    assert (job["state"], job["result"], job["error"]) == ("succeeded", {"ok": True}, None)
    assert hand.settle("complete", claimed, {"ok": True}) is False


def test_a_caller_that_waits_for_the_end_is_notified(hand: Hand) -> None:
    claimed = hand.held()
    hand.rows("insert into awaited values (%s, now())", claimed["id"])
    with psycopg.connect(hand.dsn, autocommit=True) as conn:
        conn.execute(f"listen {hand.schema}_done")
        hand.settle("complete", claimed)
        (told,) = conn.notifies(timeout=30, stop_after=1)
    assert told.payload == str(claimed["id"])


# -- failing --------------------------------------------------------------------------------------


def test_a_failed_attempt_is_kept_and_tried_again(hand: Hand) -> None:
    claimed = hand.held(max_attempts=3)
    assert hand.settle("fail", claimed, "no route", delay="1 hour") is True
    job = hand.job(claimed["id"])
    assert (job["state"], job["attempt"], job["worker_id"]) == ("s", 1, None)
    attempt = hand.row("select * from attempt")
    assert job["run_at"] - attempt["finished_at"] == timedelta(hours=1)
    assert attempt["error"] == {"type": "Failed", "message": "no route"}
    assert (attempt["outcome"], attempt["attempt"], attempt["claim"]) == ("r", 1, claimed["claim"])


def test_attempts_are_a_second_or_so_apart_and_then_more(hand: Hand) -> None:
    query = (
        "select run_at - finished_at from job j join attempt a on id = job_id and j.claim = a.claim"
    )
    claimed = hand.held(max_attempts=9)
    for most in (1, 2, 4, 8, 16, 32, 64, 128):
        hand.settle("fail", claimed, "no route")
        assert most / 2 <= hand.value(query).total_seconds() <= most
        hand.rows("update job set run_at = now()")
        hand.sweep()
        (claimed,) = hand.claim()


def test_the_last_attempt_fails_the_job(hand: Hand) -> None:
    claimed = hand.held(max_attempts=1)
    assert hand.settle("fail", claimed, "no route") is True
    job = hand.ended(claimed["id"])
    assert (job["state"], job["error"]) == ("failed", {"type": "Failed", "message": "no route"})
    assert hand.value("select outcome from attempt") == "f"


def test_an_error_that_another_attempt_cannot_mend_fails_the_job_at_once(hand: Hand) -> None:
    claimed = hand.held(max_attempts=9)
    assert hand.settle("fail", claimed, "no such customer", again=False) is True
    assert hand.state(claimed["id"]) == "failed"


def test_what_a_task_declared_for_its_failures_happens(hand: Hand) -> None:
    hand.rows(
        "insert into task (name, queue, priority, max_attempts, keep_failed, dead_letter) "
        "values ('greet', 'default', 0, 1, '30 days', 'graveyard')"
    )
    claimed = hand.held("greet", {"n": 1})
    hand.settle("fail", claimed, "no route")
    dead = hand.row("select * from job")
    assert (dead["queue"], dead["input"]) == ("graveyard", {"n": 1})
    assert dead["headers"] == {"dead-letter-of": str(claimed["id"])}


# -- going back and going on ----------------------------------------------------------------------


def test_a_released_job_keeps_its_place_and_its_attempt(hand: Hand) -> None:
    claimed = hand.held()
    hand.enqueue()
    assert hand.settle("release", claimed) is True
    (again,) = hand.claim()
    assert (again["id"], again["attempt"], again["claim"] >> 32) == (claimed["id"], 1, 2)


def test_a_snoozed_job_comes_later_and_keeps_its_attempt(hand: Hand) -> None:
    claimed = hand.held()
    assert hand.settle("snooze", claimed, "1 hour") is True
    job = hand.job(claimed["id"])
    assert (job["state"], job["attempt"]) == ("s", 0)
    assert hand.rows("select * from attempt") == []


def test_a_snooze_without_a_delay_is_refused(hand: Hand) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="delay is null") as refused:
        hand.settle("snooze", hand.held(), None)
    assert refused.value.diag.message_hint


def test_g5_a_flow_goes_on_as_its_next_step_was_declared(hand: Hand) -> None:
    hand.rows(
        "insert into task (name, first_step, queue, priority, max_attempts, keep_succeeded) values "
        "('order', 'reserve', 'default', 0, 5, '7 days'), ('order/ship', '', 'vans', 4, 9, null)"
    )
    claimed = hand.held("order", {"order": 42})
    assert claimed["step"] == "reserve"
    assert hand.settle("advance", claimed, "ship", {"box": 1}, carried={"paid": True}) is True
    (shipped,) = hand.claim("vans")
    assert (shipped["id"], shipped["step"], shipped["input"]) == (claimed["id"], "ship", {"box": 1})
    assert (shipped["priority"], shipped["max_attempts"], shipped["attempt"]) == (4, 9, 1)
    assert shipped["carried"] == {"paid": True}
    assert hand.settle("advance", shipped, "unheard-of", {}, delay="1 hour") is True
    job = hand.job(claimed["id"])
    assert (job["state"], job["queue"], job["carried"]) == ("s", "vans", {"paid": True})
    steps = hand.rows("select step, next_step, outcome, input from attempt order by claim")
    assert [tuple(step.values()) for step in steps] == [
        ("reserve", "ship", "n", {"order": 42}),
        ("ship", "unheard-of", "n", {"box": 1}),
    ]


@pytest.mark.parametrize("step", ["", " x", None, "order/ship"])
def test_a_step_has_a_name(hand: Hand, step: str | None) -> None:
    claimed = hand.held()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"is not a name|has a / in it"):
        hand.settle("advance", claimed, step, {})


# -- a job that was asked to stop -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "given"),
    [
        ("fail", ("why",)),
        ("fail", ("why", False)),
        ("release", ()),
        ("snooze", ("1 min",)),
        ("advance", ("ship", {"n": 1})),
    ],
)
def test_a_job_that_was_asked_to_stop_does_not_run_again(
    hand: Hand, function: str, given: tuple[Any, ...]
) -> None:
    claimed = hand.held()
    assert hand.call("cancel", claimed["id"]) is True
    assert hand.settle("extend", claimed, "1 min") is False
    assert hand.settle(function, claimed, *given) is True
    job = hand.ended(claimed["id"])
    assert (job["state"], job["error"]["type"]) == ("cancelled", "Cancelled")


def test_a_job_that_was_asked_to_stop_may_have_succeeded(hand: Hand) -> None:
    claimed = hand.held()
    hand.call("cancel", claimed["id"])
    assert hand.settle("complete", claimed) is True
    assert hand.state(claimed["id"]) == "succeeded"
