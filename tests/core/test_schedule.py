"""Schedules as code says them: what they are called, and what cannot be right."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headway.core.schedule import Schedule, check_schedule_name, named
from headway.errors import ConfigError

ENDS = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_schedule_without_a_name_is_called_like_its_task() -> None:
    assert named("report", "@daily") == {"report": Schedule("@daily")}
    assert named("report", Schedule("@daily", overlap="skip"))["report"].overlap == "skip"
    assert named("report", None) == {}
    assert named("report", []) == {}


def test_several_are_told_apart_by_their_spec() -> None:
    found = named(
        "report", ["@daily", "0 8 * * 1-5[Europe/Berlin]", Schedule("@weekly", name="sums")]
    )
    assert list(found) == ["report", "report: 0 8 * * 1-5[Europe/Berlin]", "sums"]


def test_the_same_spec_with_other_input_is_another_schedule() -> None:
    found = named("t", [Schedule("@daily", input={"n": n}) for n in (1, 2, 3)])
    assert list(found) == ["t", "t: @daily", "t: @daily 2"]
    assert [one.input for one in found.values()] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_name_that_was_given_is_not_taken_from_its_owner() -> None:
    found = named("t", ["@hourly", Schedule("@daily", name="t")])
    assert {name: one.spec for name, one in found.items()} == {
        "t: @hourly": "@hourly",
        "t": "@daily",
    }


@pytest.mark.parametrize(
    "twice",
    [
        ["@daily", "@daily"],
        ["0 8 * * *", " 0  8 * * * "],
        [Schedule("@daily"), Schedule("@daily", input={})],
        [
            Schedule("@daily", name="a", input={"n": 1}),
            Schedule("@daily", name="b", input={"n": 1}),
        ],
    ],
)
def test_the_same_thing_twice_is_a_mistake(twice: list[Any]) -> None:
    with pytest.raises(ConfigError, match="twice with the same input; remove one"):
        named("t", twice)


def test_two_of_a_name_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="two schedules named 'a'; change one name="):
        named("t", [Schedule("@daily", name="a"), Schedule("@hourly", name="a")])


@pytest.mark.parametrize("given", [{"@daily"}, 5, {"spec": "@daily"}, iter(["@daily"])])
def test_what_is_no_list_of_schedules_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="of t must be a text, a Schedule, or a list of them"):
        named("t", given)


def test_a_name_that_would_be_too_long_is_refused_with_what_to_do() -> None:
    assert check_schedule_name("x" * 150)
    with pytest.raises(ConfigError, match="more than 150 characters; pass a shorter name="):
        named("t" * 151, "@daily")
    with pytest.raises(ConfigError, match="more than 150 characters"):
        Schedule("@daily", name="x" * 151)


@pytest.mark.parametrize("name", ["", " a", "a\0b", "a\nb", 5])
def test_a_name_is_printable_text(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"schedule name .* must be 1 to 150 printable"):
        Schedule("@daily", name=name)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"catch_up": "none"}, "catch_up 'none' must be skip, one or all"),
        ({"overlap": "wait"}, "overlap 'wait' must be allow, skip or queue"),
        ({"max_catch_up": 0}, "max_catch_up 0 must be a whole number from 1 to 10000"),
        ({"max_catch_up": 10_001}, "max_catch_up 10001 must be"),
        ({"max_catch_up": True}, "max_catch_up True must be"),
        ({"max_catch_up": 1.0}, "max_catch_up 1.0 must be"),
        ({"jitter": "soon"}, "jitter 'soon'"),
        ({"jitter": -1}, "jitter"),
        ({"input": [1]}, r"input \[1\] of schedule '@daily' must map argument names"),
        ({"ends_at": "2030-01-01"}, "ends_at='2030-01-01' is not a datetime"),
        ({"ends_at": ENDS.replace(tzinfo=None)}, "has no time zone; give it one, e.g. tzinfo=UTC"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Schedule("@daily", **options)


def test_a_spec_that_cannot_be_read_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigError, match="an invalid hour"):
        Schedule("0 25 * * *")
    with pytest.raises(ConfigError, match="did you mean Europe/Berlin"):
        named("t", ["@daily", "@daily[Europe/Berln]"])


def test_what_ends_is_known() -> None:
    once = datetime(2029, 12, 31, 8, tzinfo=UTC)
    assert Schedule("@daily").last is None
    assert Schedule("@daily", ends_at=ENDS).last == ENDS
    assert Schedule("2029-12-31T08:00").last == once
    assert Schedule("2029-12-31T08:00", ends_at=ENDS).last == once
    assert Schedule("2030-12-31T08:00", ends_at=ENDS).last == ENDS
