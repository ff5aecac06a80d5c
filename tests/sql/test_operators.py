from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.sql.hand import Hand


def _failed(hand: Hand, **options: Any) -> dict[str, Any]:
    claimed = hand.held("greet", {"n": 1}, **options)
    hand.settle("fail", claimed, "no route", again=False)
    return claimed


def test_a_failed_job_runs_again_with_fresh_attempts(hand: Hand) -> None:
    failed = _failed(hand, max_attempts=3)
    with hand.listening() as heard:
        assert hand.call("retry", failed["id"]) is True
        assert heard() == ["ready 0 default"]
    (again,) = hand.claim()
    assert (again["id"], again["attempt"], again["claim"]) == (failed["id"], 1, 2)
    assert again["input"] == {"n": 1}


def test_a_scheduled_job_runs_now(hand: Hand) -> None:
    made = hand.enqueue(delay="1 hour")
    assert hand.call("retry", made) is True
    assert hand.state(made) == "ready"


def test_a_flow_can_go_back_to_an_earlier_step(hand: Hand) -> None:
    claimed = hand.held("order", {"order": 42}, step="reserve")
    hand.settle("advance", claimed, "ship", {"box": 1})
    (claimed,) = hand.claim()
    hand.settle("fail", claimed, "no van", again=False)
    assert hand.call("retry", claimed["id"], "pack") is False
    assert hand.call("retry", claimed["id"], "reserve") is True
    (again,) = hand.claim()
    assert (again["step"], again["input"]) == ("reserve", {"order": 42})


def test_a_unique_key_that_was_taken_meanwhile_is_given_up(hand: Hand) -> None:
    failed = _failed(hand, unique_key="u")
    hand.enqueue(unique_key="u")
    assert hand.call("retry", failed["id"]) is True
    assert hand.job(failed["id"])["unique_key"] is None


def test_there_is_nothing_to_repeat(hand: Hand) -> None:
    running = hand.held()
    done = hand.held(queue="q")
    hand.settle("complete", done)
    ready = hand.enqueue(queue="r")
    before = hand.everything()
    for job_id in (running["id"], done["id"], ready, uuid4(), None):
        assert hand.call("retry", job_id) is False
    assert hand.everything() == before


def test_what_waits_is_cancelled_and_what_runs_is_asked_to_stop(hand: Hand) -> None:
    running = hand.held()
    waiting = hand.enqueue()
    with hand.listening() as heard:
        assert hand.call("cancel", running["id"]) is True
        assert heard() == [f"cancel {running['id']}"]
    assert hand.job(running["id"])["cancelling"] is True
    assert hand.call("cancel", waiting) is True
    assert hand.state(waiting) == "cancelled"
    assert hand.call("cancel", waiting) is False
    assert hand.call("cancel", uuid4()) is False


def test_the_input_of_what_is_not_running_can_be_corrected(hand: Hand) -> None:
    failed = _failed(hand)
    waiting = hand.enqueue("greet", {"n": 1}, delay="1 hour")
    running = hand.held("greet", {"n": 1}, queue="q")
    for job_id in (failed["id"], waiting):
        assert hand.call("edit", job_id, {"n": 2}) is True
        assert hand.value("select input from jobs where id = %s", job_id) == {"n": 2}
    for job_id in (running["id"], uuid4()):
        assert hand.call("edit", job_id, {"n": 2}) is False
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="not a JSON object"):
        hand.call("edit", waiting, [1])


def test_a_queue_is_paused_and_opened(hand: Hand) -> None:
    assert hand.call("pause", "mail", "deploy") is True
    paused = hand.row("select * from queues")
    user = hand.value("select current_user")
    assert (paused["queue"], paused["paused"], paused["pause_reason"]) == ("mail", True, "deploy")
    assert paused["paused_by"] == user
    assert hand.call("pause", "mail", "provider down", by="ada") is False
    again = hand.row("select * from queues")
    assert (again["pause_reason"], again["paused_by"]) == ("provider down", "ada")
    assert again["paused_at"] == paused["paused_at"]
    with hand.listening() as heard:
        assert hand.call("resume", "mail") is True
        assert heard() == ["control"]
    assert hand.call("resume", "mail") is False
    assert hand.call("resume", "unheard-of") is False
