"""The planner: one claim asks the lanes that may have jobs, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from headway.engine.claiming.planner import ClaimPlan, ClaimPlanner
from headway.store.rows import Claim, Lane, Lanes

POLL = 3600.0
_numbers = count(1)


class Desk:
    """A planner, the slots it claims for, and what its claims would find."""

    def __init__(
        self,
        queues: Mapping[str, int],
        *,
        dedicated: Mapping[str, int] | None = None,
        handlers: Sequence[str] = ("task",),
        slots_of: Mapping[str, int] | None = None,
        batch: int = 500,
        strict: bool = False,
        free: int = 100,
    ) -> None:
        own = dict(dedicated or {})
        self.planner = ClaimPlanner(queues, own, handlers, slots_of or {}, batch, strict=strict)
        self.free = free
        self.free_of = own
        self.running = Counter[str]()
        self.ready: dict[Lane, list[Claim]] = {}

    def add(self, queue: str, number: int = 1, priority: int = 0, task: str = "task") -> Lane:
        lane = Lane(queue, priority)
        self.ready.setdefault(lane, []).extend(_claim(queue, priority, task) for _ in range(number))
        return lane

    def next(self) -> ClaimPlan | float | None:
        return self.planner.next(
            self.free, self.free_of.__getitem__, self.running.__getitem__, POLL
        )

    def plan(self) -> ClaimPlan:
        plan = self.next()
        assert isinstance(plan, ClaimPlan), plan
        return plan

    def take(self, plan: ClaimPlan) -> list[Claim]:
        """Return what such a claim finds: by queue, by line, after cursors, within limits."""
        taken: list[Claim] = []
        for share in plan.shares:
            left = share.most
            for ask in share.lines:
                lane = self.ready.get(Lane(share.queue, ask.priority), [])
                found = [
                    job for job in lane if job.seq > ask.cursor and job.handler in ask.handlers
                ]
                for job in found[: min(left, ask.most)]:
                    lane.remove(job)
                    taken.append(job)
                    left -= 1
        return taken

    def turn(self, plan: ClaimPlan | None = None) -> list[Claim]:
        """Make the claim that is due, with a scan if that is due, and take in its answer."""
        plan = plan or self.plan()
        claims = self.take(plan)
        found = [lane for lane, jobs in self.ready.items() if jobs]
        lanes = Lanes(next(_numbers), found) if plan.scan else None
        self.planner.learn(plan, claims, (), lanes, [] if plan.scan else None)
        return claims

    def scan(self) -> None:
        """The first thing a worker does."""
        plan = self.plan()
        assert plan.scan
        assert plan.shares == []
        self.turn(plan)


@pytest.fixture(autouse=True)
def _looks_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The duration of a scan in this test must not delay the next one."""
    monkeypatch.setattr("headway.engine.claiming.scan._SHARE", 0)


def _claim(queue: str, priority: int, task: str) -> Claim:
    number = next(_numbers)
    return Claim(str(number), 1, task, "", 1, 3, queue, priority, number, None, "{}", *[None] * 3)


def _asked(plan: ClaimPlan) -> dict[str, int]:
    return {share.queue: share.most for share in plan.shares}


def test_the_first_thing_is_a_look_and_then_only_lanes_that_have_something() -> None:
    desk = Desk({f"q{n}": 1 for n in range(1_000)})
    desk.add("q7", 3)
    desk.add("q500", 3)
    desk.scan()
    assert _asked(desk.plan()).keys() == {"q7", "q500"}
    assert len(desk.turn()) == 6
    assert isinstance(desk.next(), float), "nothing is asked until something is said"


def test_all_queues_and_lanes_that_have_something_are_in_one_claim() -> None:
    desk = Desk({f"q{n}": 1 for n in range(30)})
    for n in range(30):
        desk.add(f"q{n}", priority=0)
        desk.add(f"q{n}", priority=5)
    desk.scan()
    plan = desk.plan()
    assert len(plan.shares) == 30
    assert [[ask.priority for ask in share.lines] for share in plan.shares] == [[5, 0]] * 30
    assert len(desk.turn()) == 60


def test_what_was_said_of_others_is_not_for_us() -> None:
    desk = Desk({"a": 1}, dedicated={"own": 2})
    desk.scan()
    assert not desk.planner.hint(Lane("b", 0))
    assert isinstance(desk.next(), float)
    assert desk.planner.hint(Lane("own", 0))
    assert desk.planner.hint(Lane("a", 0))
    assert _asked(desk.plan()).keys() == {"a", "own"}


def test_who_serves_every_queue_asks_those_that_it_never_heard_of() -> None:
    desk = Desk({"a": 3, "*": 1}, free=8)
    desk.scan()
    assert desk.planner.hint(desk.add("new", 50))
    assert len(desk.turn()) == 8
    desk.planner.hint(desk.add("a", 50))
    assert _asked(desk.plan()) == {"a": 6, "new": 2}


def test_a_dedicated_queue_is_asked_for_its_own_slots_and_no_more() -> None:
    desk = Desk({"a": 1}, dedicated={"own": 2}, free=10)
    desk.add("a", 100)
    desk.add("own", 100)
    desk.scan()
    assert _asked(desk.plan()) == {"a": 10, "own": 2}
    desk.free = 0
    assert _asked(desk.plan()) == {"own": 2}, "though all shared slots are taken"
    desk.free_of["own"] = 0
    desk.free = 10
    assert _asked(desk.plan()) == {"a": 10}, "and none of the shared are for it"
    desk.free = 0
    assert desk.next() is None, "until a slot is free"


def test_a_batch_bounds_what_a_queue_is_asked_for_at_once() -> None:
    desk = Desk({"a": 1}, dedicated={"own": 50}, batch=20)
    desk.add("a", 100)
    desk.add("own", 100)
    desk.scan()
    assert _asked(desk.plan()) == {"a": 20, "own": 20}


def test_strict_asks_one_queue_at_a_time_and_dedicated_ones_as_well() -> None:
    desk = Desk({"first": 1, "second": 1}, dedicated={"own": 2}, strict=True, free=5)
    desk.add("second", 5)
    desk.add("first", 7)
    desk.add("own", 1)
    desk.scan()
    assert _asked(desk.plan()) == {"first": 5, "own": 2}
    order = [[job.queue for job in desk.turn()] for _ in range(3)]
    assert order == [["first"] * 5 + ["own"], ["first"] * 2, ["second"] * 5]


def test_what_is_said_while_a_claim_is_under_way_is_not_forgotten() -> None:
    desk = Desk({"a": 1})
    desk.add("a", 2)
    desk.scan()
    plan = desk.plan()
    claims = desk.take(plan)
    desk.planner.hint(desk.add("a", 1))  # behind what the claim saw
    desk.planner.learn(plan, claims)
    assert len(desk.turn()) == 1


def test_jobs_that_committed_late_before_the_cursor_are_found_by_a_scan() -> None:
    desk = Desk({"a": 1})
    late = _claim("a", 0, "task")  # has its place, but is not there yet
    desk.add("a", 3)
    desk.scan()
    assert len(desk.turn()) == 3
    desk.ready[Lane("a", 0)].append(late)
    desk.planner.hint(Lane("a", 0))
    # The hinted lane is claimed first. Then comes the scan, and then the claim from the start.
    assert [desk.turn() for _ in range(3)] == [[], [], [late]]


@pytest.mark.parametrize("under_way", [False, True])
def test_what_became_ready_at_a_known_place_is_found_without_a_look(under_way: bool) -> None:
    """Also if a claim that did not see it is under way, and reads on behind it."""
    desk = Desk({"a": 1})
    late = _claim("a", 0, "task")
    lane = desk.add("a", 3)
    desk.scan()
    plan = desk.plan()
    claims = desk.take(plan)
    if under_way:
        desk.planner.hint(lane, late.seq)
    desk.planner.learn(plan, claims)
    assert len(claims) == 3
    desk.ready[lane].append(late)
    if not under_way:
        desk.planner.hint(lane, late.seq)
    plan = desk.plan()
    assert not plan.scan
    assert desk.turn(plan) == [late]


def test_a_claim_is_full_if_it_brought_all_that_was_asked_for() -> None:
    desk = Desk({"a": 1, "b": 1}, free=4)
    desk.add("a", 6)
    desk.scan()
    assert not desk.planner.last_claim_was_full
    desk.turn()
    assert desk.planner.last_claim_was_full
    desk.turn()
    assert not desk.planner.last_claim_was_full, "two were left, of four that were asked for"


def test_a_claim_that_failed_is_made_up_for_by_a_look() -> None:
    desk = Desk({"a": 1})
    desk.add("a", 3)
    desk.scan()
    desk.plan()
    desk.planner.failed()
    assert desk.plan().scan


def test_a_handler_without_a_free_slot_is_not_asked_for_and_holds_nobody_up() -> None:
    desk = Desk({"a": 1, "b": 1}, handlers=("narrow", "wide"), slots_of={"narrow": 2})
    for queue in ("a", "b"):
        desk.add(queue, 10, task="narrow")
    desk.scan()
    asks: list[Any] = [ask for share in desk.plan().shares for ask in share.lines]
    assert [(ask.handlers, ask.most) for ask in asks if ask.alone] == [(("narrow",), 2)], (
        "of one lane at a time"
    )
    desk.running["narrow"] = 2
    assert {ask.handlers for share in desk.plan().shares for ask in share.lines} == {("wide",)}


def test_what_is_empty_is_asked_no_more_until_something_is_said() -> None:
    desk = Desk({"a": 1, "b": 1})
    desk.add("a", 3)
    desk.add("b", 1)
    desk.scan()
    desk.free = 4
    assert len(desk.turn()) == 3, "two of a, one of b: less than b was asked for"
    assert _asked(desk.plan()).keys() == {"a"}


@pytest.mark.parametrize("dedicated", [False, True], ids=["shared", "dedicated"])
def test_a_handler_with_few_slots_is_asked_for_in_each_of_its_queues_by_turns(
    dedicated: bool,
) -> None:
    """A long queue does not keep the slots of a task from another queue that has it."""
    queues, own = ({"long": 1}, {"short": 1}) if dedicated else ({"long": 1, "short": 1}, {})
    desk = Desk(queues, dedicated=own, handlers=("narrow",), slots_of={"narrow": 1})
    desk.add("long", 100, task="narrow")
    desk.add("short", 5, task="narrow")
    desk.scan()
    ran = [job.queue for _ in range(20) for job in desk.turn()]
    assert ran[:12].count("short") == 5, ran


def test_g12_a_higher_lane_is_asked_without_a_hint() -> None:
    """A job that has just become ready there goes first, whether or not its hint has arrived."""
    desk = Desk({"a": 1}, free=1)
    desk.scan()
    desk.planner.hint(desk.add("a", priority=9))
    desk.turn()
    desk.planner.hint(desk.add("a", 5, priority=0))
    desk.turn()
    desk.add("a", priority=9)  # without a notification
    assert [claim.priority for claim in desk.turn()] == [9]
    assert [claim.priority for claim in desk.turn()] == [0]
