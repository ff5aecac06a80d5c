"""Examples by hand of pauses, limits and purges, so that the random ones are known to get there.

After every command the database and the model agree; here is what they agree on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway.core.limits import Limit
from headway.core.retry import Retry
from headway.core.state import State
from headway.core.verdict import Raised, Returned, Stopped
from headway.errors import Snooze
from headway.store.rows import Lane
from tests.model.job import NO_LINE, Line
from tests.model.machine import LINES, PACKED, TENANTS, Heard, moved
from tests.model.pair import End
from tests.model.troubled import Troubled
from tests.store.store import TASK, Store

_NOW = Retry(backoff="constant", base=0, jitter=0)
DONE: End = (Returned(b"1"), _NOW)
AGAIN: End = (Raised(ValueError("again")), _NOW)
RETURNED: End = (Stopped("shutdown"), _NOW)


class Hand:
    """One command after another, and a scan after each."""

    def __init__(self, store: Store, heard: Heard) -> None:
        self.machine = Troubled(store, heard)
        self.model = self.machine.model

    def then(self, command: Callable[..., Any], *given: Any) -> list[Any]:
        answer = command(*given)
        self.machine.agree()
        return list(getattr(answer, "values", ()))

    def make(self, many: int, line: Any = NO_LINE, queue: str = "a") -> list[str]:
        return self.then(self.machine.enqueue, queue, 0, None, None, 3, many, line)

    def work(self, *ends: End) -> list[str]:
        """Those who were claimed."""
        return [claim.id for claim in self.then(self.machine.work, 0, list(ends))]

    def wait(self, seconds: float) -> None:
        self.then(self.machine.wait, seconds)

    def states(self, *ids: str) -> list[State]:
        return [self.model.jobs[job_id].state for job_id in ids]


@pytest.fixture
def hand(store: Store, heard: Heard) -> Hand:
    return Hand(store, heard)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        (("queue", "a"), 2),
        (("task", TASK), 0),
        (("task", f"{TASK}/pack"), 3),
        (("key", LINES[0].key), 3),
    ],
)
@pytest.mark.parametrize("admitted", [False, True])
def test_a_pause_stops_its_own_until_it_ends(
    hand: Hand, name: Any, others: int, admitted: bool
) -> None:
    """A job of each kind. A pause of a flow's name stops all its steps."""
    hand.make(1)
    hand.make(1, LINES[0])
    hand.make(1, queue="b")
    hand.machine.pair.enqueue(Lane("b", 0), None, None, 3, NO_LINE, [None], step="pack")
    hand.machine.agree()
    if admitted:
        hand.then(hand.machine.admit_all)
    hand.then(hand.machine.pause, name, 15.0)
    hand.then(hand.machine.admit, {LINES[0].key or ""})
    assert len(hand.work()) == others
    hand.wait(20.0)
    assert len(hand.work()) == 4 - others
    hand.then(hand.machine.resume, name)


@pytest.mark.parametrize("line", [LINES[0], LINES[1], TENANTS[0]], ids=["one", "two", "tenant"])
@pytest.mark.parametrize("name", [("queue", "a"), ("task", TASK)], ids=["queue", "task"])
def test_an_admitted_job_that_is_paused_gives_its_room_to_one_that_is_not(
    hand: Hand, line: Line, name: Any
) -> None:
    machine = hand.machine
    hand.then(machine.limit, ("keys", TASK), Limit(concurrency=1))
    most = line.limit or 1
    shut = hand.make(3, line)
    hand.then(machine.admit_all)
    hand.then(machine.pause, name, 15.0)
    able = hand.make(2, line, queue="b")
    hand.then(machine.admit_all)
    if name == ("task", TASK):
        able = []  # of the same task
    assert [state.label for state in hand.states(*able)] == ["ready"] * min(most, len(able)) + [
        "blocked"
    ] * (len(able) - most)
    assert sorted(hand.work(*[DONE] * most)) == sorted(able[:most])
    hand.wait(20.0)
    for _ in range(3):
        hand.then(machine.admit_all)
        hand.work(*[DONE] * most)
        hand.work(*[DONE] * most)
    assert {state.label for state in hand.states(*shut, *able)} == {"succeeded"}


def test_a_limit_holds_for_every_claim_and_is_changed_while_jobs_run(hand: Hand) -> None:
    machine = hand.machine
    hand.make(6)
    hand.then(machine.limit, ("queue", "a"), Limit(concurrency=2))
    assert len(hand.work()) == 2
    assert hand.then(machine.claim, 1, False, 6, 6, "a", False, False) == []
    hand.then(machine.limit, ("queue", "a"), Limit(concurrency=3))
    assert len(hand.work()) == 1
    hand.then(machine.declare, {TASK}, Limit(concurrency=1), False)
    hand.then(machine.limit, ("queue", "a"), None)
    assert hand.work() == [], "what ran before it was declared counts"
    hand.then(machine.limit, ("task", TASK), Limit(concurrency=4))
    assert len(hand.work()) == 1
    hand.then(machine.crash, 0, True)
    assert len(hand.then(machine.claim, 1, False, 6, 6, "a", False, True)) == 4
    hand.then(machine.reset, ("task", TASK))
    assert hand.work() == []


def test_a_rate_lets_so_many_start_and_no_more(hand: Hand) -> None:
    hand.make(6)
    hand.then(hand.machine.limit, ("task", TASK), Limit(rate="1/5s", burst=2))
    assert len(hand.work(DONE, RETURNED)) == 2
    assert hand.work(DONE) == []
    hand.wait(5.0)
    assert len(hand.work(DONE)) == 1
    hand.wait(100.0)
    assert len(hand.work(DONE, DONE)) == 2


def test_what_runs_already_counts_under_a_limit_that_is_set(hand: Hand) -> None:
    hand.make(4)
    assert len(hand.then(hand.machine.claim, 0, False, 2, 2, "a", False, True)) == 2
    hand.then(hand.machine.limit, ("queue", "a"), Limit(concurrency=2))
    assert hand.work() == []


@pytest.mark.parametrize("line", [NO_LINE, TENANTS[0]])
def test_what_a_slow_rate_has_spent_says_nothing_of_a_faster_one(hand: Hand, line: Line) -> None:
    name = ("keys" if line.key else "task", TASK)
    hand.make(4, line)
    hand.then(hand.machine.limit, name, Limit(rate="1/h"))
    assert len(hand.work(DONE)) == 1
    hand.wait(10.0)
    assert hand.work() == []
    hand.then(hand.machine.limit, name, Limit(rate="1/2s"))
    assert len(hand.work(DONE)) == 1
    hand.wait(5.0)
    assert len(hand.work(DONE)) == 1


def test_a_retry_takes_another_token_of_its_key_and_a_return_gives_its_own_back(hand: Hand) -> None:
    hand.then(hand.machine.declare, {TASK}, Limit(rate="1/10s"), True)
    one, two = hand.make(2, TENANTS[0])
    (other,) = hand.make(1, TENANTS[1])
    assert hand.work(RETURNED, DONE) == [one, other]
    assert hand.states(one, two) == [State.BLOCKED, State.READY], "who joins it again is the last"
    assert hand.work(AGAIN) == [two]
    assert hand.states(one, two) == [State.BLOCKED, State.BLOCKED]
    assert hand.work() == []
    hand.wait(10.0)
    assert hand.work() == [one], "a job that runs again comes after those that waited"


def test_each_key_of_a_handler_has_what_is_said_of_them(hand: Hand) -> None:
    hand.make(4, TENANTS[0])
    hand.make(4, TENANTS[1])
    hand.then(hand.machine.limit, ("keys", TASK), Limit(concurrency=2))
    assert len(hand.work()) == 4
    hand.then(hand.machine.limit, ("keys", TASK), Limit(concurrency=1))
    assert hand.work() == []
    hand.then(hand.machine.limit, ("keys", TASK), None)
    assert len(hand.work()) == 4


def test_a_queue_is_purged_and_transferred_and_all_of_it_is_counted(hand: Hand) -> None:
    machine = hand.machine
    held, waiting = hand.make(2, LINES[0])
    hand.make(2)
    hand.then(machine.admit_all)
    hand.then(machine.transfer, "a")
    assert [job.id for job in hand.model.waiting_in("b")][:2] == [held, waiting]
    hand.make(1, LINES[0])
    hand.then(machine.purge, "b", TASK)
    hand.then(machine.tally, 1)
    assert hand.model.ends["b", State.CANCELLED] == 4
    assert len(hand.work(DONE)) == 1, "the room was free"
    hand.then(machine.tally, 1000)
    hand.then(machine.clean_up)


def test_a_job_that_left_a_key_with_a_rate_is_not_stuck_when_it_is_tried_again(hand: Hand) -> None:
    """It was blocked for ever, behind a key that it does not have."""
    hand.then(hand.machine.limit, ("keys", TASK), Limit(rate="1/10s"))
    (moves,) = hand.make(1, TENANTS[0])
    given = ("b", 0, None, TENANTS[1], ["u1"], "replace", True)
    (replaced,) = hand.then(hand.machine.enqueue_unique, *given)
    hand.then(hand.machine.admit_all)
    hand.then(hand.machine.enqueue_unique, "b", 0, None, NO_LINE, ["u1"], "replace", True)
    assert hand.work((moved("mail", 0.0, NO_LINE), _NOW), (Raised(Snooze(0)), _NOW))
    assert hand.states(moves, replaced) == [State.READY, State.READY]
    assert hand.work(AGAIN, AGAIN)
    assert hand.states(moves, replaced) == [State.READY, State.READY]


def test_a_limit_of_a_name_does_not_stop_the_steps_of_a_flow_of_that_name(hand: Hand) -> None:
    """Only a pause is of a whole flow. A worker that has no such handler never takes that limit."""
    lane = Lane("a", 0)
    hand.then(hand.machine.pair.enqueue, lane, None, None, 3, PACKED, [None], "skip")
    (step,) = hand.machine.pair.enqueue(lane, None, None, 3, NO_LINE, [None], step="pack")
    hand.machine.agree()
    hand.then(hand.machine.limit, ("task", TASK), Limit(concurrency=1))
    claims = hand.then(hand.machine.claim, 0, False, 5, 5, "a", False, False)
    assert [claim.id for claim in claims] == [step]
