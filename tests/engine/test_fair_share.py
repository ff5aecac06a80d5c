"""Whose turn it is: shares by weight, and none that anybody did not ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.engine.claiming.fair_share import FairShare


def _serve(
    turns: FairShare, waiting: Mapping[str, int], rounds: int, room: int = 1
) -> tuple[list[str], Counter[str]]:
    """Serve a backlog for these rounds. Return the started jobs, in order, and the rest."""
    left, ran = Counter(waiting), list[str]()
    for queue in waiting:
        turns.join(queue)
    for _ in range(rounds):
        for queue, most in turns.shares(room):
            got = min(most, left[queue])
            left[queue] -= got
            turns.served(queue, got)
            ran += [queue] * got
            if not left[queue]:
                turns.leave(queue)
    return ran, left


@pytest.mark.parametrize("room", [1, 3, 7, 100])
def test_a_backlog_is_shared_by_weight_however_much_room_there_is(room: int) -> None:
    weights = {"a": 5, "b": 3, "c": 1}
    turns = FairShare(weights, strict=False)
    ran, _ = _serve(turns, dict.fromkeys(weights, 100_000), 900, room)
    assert len(ran) == 900 * room
    for queue, weight in weights.items():
        assert ran.count(queue) == pytest.approx(len(ran) * weight / 9, rel=0.02)


def test_in_every_stretch_each_queue_has_its_share() -> None:
    """Not only in the long run: no queue waits for longer than a round of all weights."""
    weights = {"a": 5, "b": 3, "c": 1}
    turns = FairShare(weights, strict=False)
    ran, _ = _serve(turns, dict.fromkeys(weights, 1_000), 180)
    for start in range(0, 170, 9):
        stretch = Counter(ran[start : start + 10])
        assert all(stretch[queue] >= 1 for queue in weights), (start, stretch)


def test_what_one_queue_does_not_use_goes_to_the_others() -> None:
    turns = FairShare({"a": 1, "b": 1}, strict=False)
    ran, left = _serve(turns, {"a": 4, "b": 100}, 50, room=2)
    assert left["a"] == 0
    assert len(ran) == 50 * 2, "no slot was free for a round"


def test_a_queue_that_comes_late_has_no_right_to_what_it_did_not_ask_for() -> None:
    turns = FairShare({"early": 1, "late": 1}, strict=False)
    _serve(turns, {"early": 1_000}, 500)
    ran, _ = _serve(turns, {"early": 1_000, "late": 1_000}, 20)
    assert Counter(ran) == {"early": 10, "late": 10}


def test_a_queue_that_was_empty_for_a_while_does_not_catch_up() -> None:
    turns = FairShare({"a": 1, "b": 1}, strict=False)
    _serve(turns, {"a": 1_000, "b": 10}, 200)  # b is empty after 20 of them
    ran, _ = _serve(turns, {"a": 1_000, "b": 1_000}, 20)
    assert Counter(ran) == {"a": 10, "b": 10}


def test_to_come_and_go_is_no_way_to_more() -> None:
    """A queue that is empty after each of its jobs keeps its clock; joining does not set it back."""
    turns = FairShare({"steady": 1, "hopping": 1}, strict=False)
    turns.join("steady")
    ran = Counter[str]()
    for _ in range(100):
        turns.join("hopping")
        ((queue, _),) = turns.shares(1)
        turns.served(queue, 1)
        ran[queue] += 1
        turns.leave("hopping")
        turns.tidy()
    assert ran["hopping"] <= 51
    assert ran["steady"] >= 49


def test_queues_that_are_not_named_have_the_weight_of_the_star() -> None:
    turns = FairShare({"mail": 4, "*": 2}, strict=False)
    ran, _ = _serve(turns, {"mail": 1_000, "x": 1_000, "y": 1_000}, 800)
    assert ran.count("mail") == pytest.approx(400, abs=4)
    assert ran.count("x") == pytest.approx(200, abs=4)
    assert ran.count("y") == pytest.approx(200, abs=4)


def test_of_very_many_queues_each_has_its_turn() -> None:
    queues = {f"q{n}": 1 for n in range(1_000)}
    turns = FairShare(queues, strict=False)
    ran, left = _serve(turns, dict.fromkeys(queues, 5), 1_000, room=32)
    assert set(left.values()) == {0}
    assert max(Counter(ran[:1_000]).values()) == 1, "each once before any twice"
    for queue in queues:
        turns.join(queue)
    assert all(len(turns.shares(500)) <= 32 for _ in range(3))


def test_strict_asks_the_first_that_has_something_for_everything() -> None:
    turns = FairShare({"urgent": 1, "normal": 100, "*": 1, "low": 1}, strict=True)
    for queue in ("low", "other", "normal", "another", "urgent"):
        turns.join(queue)
    for queue in ("urgent", "normal", "other", "another", "low"):
        assert turns.shares(10) == [(queue, 10)]
        turns.served(queue, 10)
        turns.leave(queue)
    assert turns.shares(10) == []


def test_strict_serves_those_of_one_place_in_turn() -> None:
    turns = FairShare({"urgent": 1, "*": 1}, strict=True)
    ran, _ = _serve(turns, {"b": 10, "a": 10, "urgent": 1}, 5)
    assert ran == ["urgent", "b", "a", "b", "a"]


def test_strict_without_a_star_still_has_a_place_for_everyone() -> None:
    turns = FairShare({"a": 1, "b": 1}, strict=True)
    turns.join("b")
    turns.join("a")
    assert turns.shares(3) == [("a", 3)]


def test_a_queue_without_room_is_skipped_and_keeps_its_place() -> None:
    turns = FairShare({"a": 1, "b": 1}, strict=False)
    turns.join("a")
    turns.join("b")
    assert turns.shares(4, lambda queue: queue != "a") == [("b", 4)]
    assert turns.shares(4) == [("a", 2), ("b", 2)]


def test_of_queues_with_equal_shares_the_one_that_was_read_less_far_comes_first() -> None:
    turns = FairShare({}, strict=False)
    for queue, place in (("a", 30), ("b", 10), ("c", 20)):
        turns.join(queue)
        turns.served(queue, 5, place)
    assert turns.shares(3) == [("b", 1), ("c", 1), ("a", 1)]
    turns.served("b", 1, 11)
    assert turns.shares(1) == [("c", 1)], "who had less is before all of them"


def test_the_line_does_not_grow_with_every_turn() -> None:
    turns = FairShare({}, strict=False)
    _serve(turns, dict.fromkeys("abcde", 100_000), 2_000, room=3)
    assert len(turns._heap) <= 10


@given(
    weights=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 100), min_size=1),
    rooms=st.lists(st.integers(0, 50), min_size=1, max_size=30),
    strict=st.booleans(),
)
def test_all_room_is_asked_for_and_never_more(
    weights: dict[str, int], rooms: list[int], strict: bool
) -> None:
    turns = FairShare(weights, strict=strict)
    for queue in weights:
        turns.join(queue)
    for room in rooms:
        shares = turns.shares(room)
        assert sum(most for _, most in shares) == room
        assert all(most > 0 for _, most in shares)
        assert len({queue for queue, _ in shares}) == len(shares)
        for queue, most in shares:
            turns.served(queue, most)


@given(
    weights=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10), min_size=2),
    rooms=st.lists(st.integers(1, 20), min_size=60, max_size=60),
)
def test_no_queue_is_ever_short_of_its_share_by_more_than_a_few_claims(
    weights: dict[str, int], rooms: list[int]
) -> None:
    """With a backlog in every queue, at every moment."""
    turns = FairShare(weights, strict=False)
    ran, total = Counter[str](), sum(weights.values())
    for queue in weights:
        turns.join(queue)
    for room in rooms:
        for queue, most in turns.shares(room):
            turns.served(queue, most)
            ran[queue] += most
        for queue, weight in weights.items():
            due = ran.total() * weight / total
            assert ran[queue] >= due - 2 * total, (queue, ran, weights)
