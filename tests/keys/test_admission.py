"""The invariants of key admission (engine/keys/admission.py), without a database."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.core.clock import Clock
from headway.engine.claiming.planner import ClaimPlanner
from headway.engine.keys import admission
from headway.engine.keys.admission import KeyAdmission
from headway.errors import DatabaseError, DatabaseUnavailable
from headway.store.connections.connect import Target
from headway.store.connections.engine_connection import EngineConnection
from headway.store.rows import Admission, Lane
from headway.store.statement import Statement


class Connection(EngineConnection):
    """Answers admissions, or raises."""

    def __init__(self) -> None:
        super().__init__(Target("", "hw"))
        self.asked: list[list[str]] = []
        self.answer = Admission(0, {}, {})
        self.error: Exception | None = None

    async def run_all(self, *statements: Statement[Any]) -> list[Any]:
        keys = _keys(statements[0])
        self.asked.append(keys)
        if self.error is not None:
            raise self.error
        return [*[None] * (len(statements) - 1), self.answer]


def _keys(statement: Statement[Any]) -> list[str]:
    params: Any = statement.params
    found: list[str] = json.loads(params["keys"])
    return found


class Desk:
    """A `KeyAdmission`, and how often it woke the job loop."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.planner = ClaimPlanner({"mail": 1}, {}, ["task"], {}, 100)
        self.woken = 0
        self.keys = KeyAdmission(self.connection, Clock(), self.planner, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def free(self, keys: str) -> None:
        for key in keys:
            self.keys.free(key)

    def queue(self, keys: str) -> None:
        """Free keys in a round trip of a busy job loop that commits."""
        self.free(keys)
        taken = self.keys.take((), claim_was_full=True)
        assert taken.in_parallel
        self.keys.committed(taken, None)

    def taken(self, *, full: bool = False) -> tuple[str, str]:
        """Return all keys of the next round trip, and those of its commit; then undo it."""
        taken = self.keys.take((), claim_was_full=full)
        self.keys.undo(taken)
        return "".join(taken.keys), "".join(taken.in_commit)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_k1_a_round_trip_that_commits_has_admitted_and_one_that_fails_gives_its_keys_back(
    desk: Desk,
) -> None:
    desk.free("ba")
    taken = desk.keys.take((), claim_was_full=False)
    desk.free("ca")
    desk.keys.undo(taken)
    assert desk.taken() == ("bac", "bac")
    desk.keys.committed(desk.keys.take((), claim_was_full=False), None)
    assert desk.taken() == ("", "")


async def test_k2_while_keys_are_queued_the_commit_admits_none_and_new_ones_go_after_them(
    desk: Desk,
) -> None:
    desk.queue("ba")
    desk.free("c")
    taken = desk.keys.take((), claim_was_full=False)
    assert (taken.in_parallel, list(taken.in_commit)) == (True, [])
    desk.keys.committed(taken, None)
    assert await desk.keys.admit_queued()
    assert desk.connection.asked == [["b", "a", "c"]]
    assert not await desk.keys.admit_queued()
    desk.free("d")
    assert desk.taken() == ("d", "d")


def test_k3_a_key_is_queued_after_the_commit_only(desk: Desk) -> None:
    desk.free("a")
    taken = desk.keys.take((), claim_was_full=True)
    assert taken.in_parallel
    assert not desk.keys.queued.is_set()
    desk.keys.undo(taken)
    assert not desk.keys.queued.is_set()
    desk.keys.committed(desk.keys.take((), claim_was_full=True), None)
    assert desk.keys.queued.is_set()


async def test_k4_after_a_fault_the_queue_is_closed_and_the_commit_admits(desk: Desk) -> None:
    desk.queue("ba")
    before = desk.woken
    desk.connection.error = DatabaseUnavailable("away")
    with pytest.raises(DatabaseUnavailable):
        await desk.keys.admit_queued()
    assert desk.woken == before + 1
    assert desk.taken(full=True) == ("ba", "ba")
    assert not await desk.keys.admit_queued(), "it is open again, and nothing was left in it"
    assert desk.taken(full=True) == ("ba", "")


async def test_k4_keys_that_meet_a_closed_queue_come_back(desk: Desk) -> None:
    desk.queue("a")
    desk.free("b")
    taken = desk.keys.take((), claim_was_full=True)
    desk.connection.error = DatabaseUnavailable("away")
    with pytest.raises(DatabaseUnavailable):
        await desk.keys.admit_queued()
    desk.keys.committed(taken, None)
    assert desk.taken() == ("ba", "ba")


async def test_k5_a_transaction_admits_under_a_bounded_number_of_keys(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "KEYS_AT_ONCE", 2)
    desk.free("abc")
    taken = desk.keys.take((), claim_was_full=False)
    assert list(taken.in_commit) == ["a", "b"]
    desk.keys.committed(taken, None)
    assert desk.taken() == ("c", "c")
    desk.queue("de")
    while await desk.keys.admit_queued():
        pass
    await desk.keys.admit("zyx")
    assert desk.connection.asked == [["c", "d"], ["e"], ["x", "y"], ["z"]]


async def test_k7_the_planner_reads_from_the_first_admitted_seq(desk: Desk) -> None:
    line = ("mail", 0, None)
    desk.planner._cursors.claimed(line, 50, from_start=False)
    desk.connection.answer = Admission(1, {Lane("mail", 0): 7}, {})
    before = desk.woken
    await desk.keys.admit(["a"])
    desk.planner._cursors.step_back()
    assert desk.planner._cursors.after(line) == 6
    assert desk.woken == before + 1


def test_k8_a_key_is_due_at_its_moment_and_again_after_a_fault(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(admission, "monotonic", lambda: now)
    desk.keys.expect({"a": 5.0, "b": 9.0})
    assert desk.keys.moments_changed.is_set()
    assert (desk.keys.take_due(), desk.keys.next_due_in()) == (set(), 5.0)
    now = 106.0
    due = desk.keys.take_due()
    assert due == {"a"}
    desk.keys.try_again(due)
    assert desk.keys.take_due() == {"a"}
    assert (desk.keys.take_due(), desk.keys.next_due_in()) == (set(), 3.0)


def test_the_keys_of_a_refused_round_trip_are_queued_where_the_bad_one_is_found(desk: Desk) -> None:
    desk.free("ab")
    taken = desk.keys.take((), claim_was_full=False)
    desk.keys.undo(taken)
    desk.keys.refused(taken)
    assert desk.taken(full=True) == ("", "")
    assert desk.keys.queued.is_set()


async def test_g8_a_key_that_the_server_refuses_is_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = DatabaseError("bad bytes")
    monkeypatch.setattr(admission, "is_about_data", lambda error: error is refused)
    answered: list[str] = []

    async def run_all(*statements: Statement[Any]) -> list[Any]:
        keys = _keys(statements[0])
        if "bad" in keys:
            raise refused
        answered.extend(keys)
        return [*[None] * (len(statements) - 1), Admission(0, {}, {})]

    monkeypatch.setattr(desk.connection, "run_all", run_all)
    await desk.keys.admit(["a", "bad", "c", "d"])
    assert answered == ["a", "c", "d"]
