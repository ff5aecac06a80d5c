"""A backlog that a cursor has passed: it committed late, or its queue was paused meanwhile."""

from __future__ import annotations

from headway.engine.claimer import Claimer, Plan
from headway.store.rows import Claim, Lanes
from tests.support import eventually_sync

_LINE = ("default", 0, None)
_ROOM = 10


def _nothing_runs(_: str) -> int:
    return 0


def _plan(claimer: Claimer) -> Plan:
    claimer.hint()
    plan = claimer.next(_ROOM, _nothing_runs, 5.0)
    assert isinstance(plan, Plan)
    return plan


def _full_plan(claimer: Claimer) -> Plan:
    """The next plan that reads from the start; those before it find nothing."""

    def full() -> Plan | None:
        plan = _plan(claimer)
        if plan.full:
            return plan
        claimer.learn(plan, [], None)
        return None

    return eventually_sync(full)


def _claim(seq: int) -> Claim:
    return Claim(str(seq), 1, "t", "", 1, 5, "default", 0, seq, "{}", None, None)


def test_a_backlog_found_behind_the_cursor_is_read_on_from_there() -> None:
    claimer = Claimer({"default": 1}, ["t"], {}, batch=500)
    claimer.learn(_full_plan(claimer), [], Lanes(1000, []))
    assert _plan(claimer).asks[_LINE].cursor in (0, 1000)

    found = _full_plan(claimer)
    found.began -= 60.0  # that scan took a minute: the next one is far away
    claimer.learn(found, [_claim(seq) for seq in range(1, _ROOM + 1)], Lanes(1000, []))
    following = _plan(claimer)
    assert not following.full
    assert following.asks[_LINE].cursor == _ROOM
