"""Durations as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.duration import in_words, optional_seconds, seconds
from headway.errors import ConfigError

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("90s", 90.0),
        ("250ms", 0.25),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        (" 2D ", 172800.0),
        ("1.5h", 5400.0),
        ("2w", 1209600.0),
        ("2y", 63072000.0),
        ("0s", 0.0),
        (0, 0.0),
        (2, 2.0),
        (2.5, 2.5),
        (timedelta(days=1), 86400.0),
        (timedelta(milliseconds=1), 0.001),
    ],
)
def test_a_duration_is_read_in_every_way_it_may_be_written(written, meant) -> None:
    assert seconds(written) == pytest.approx(meant)


@pytest.mark.parametrize(
    "written",
    ["", " ", "10", "s", "10 parsecs", "-5s", "5s-", "1h30", "1,5h", "10mm", "١٠x", "1e3s", "10m!"],
)
def test_text_that_is_no_duration_is_refused_by_name(written: str) -> None:
    with pytest.raises(ConfigError, match=r"grace .* is not a duration; write it like"):
        seconds(written, name="grace")


@pytest.mark.parametrize("value", [None, True, False, [], object(), b"10s", 3 + 4j])
def test_what_is_no_length_of_time_at_all_is_refused(value) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        seconds(value)


@pytest.mark.parametrize(
    "value",
    [-1, -0.001, float("nan"), float("inf"), timedelta(days=-1), timedelta.max, "99999999d", 1e300],
)
def test_a_length_of_time_out_of_bounds_is_refused(value) -> None:
    with pytest.raises(ConfigError, match="must be between 0 and 100 years"):
        seconds(value)


def test_a_number_too_large_for_a_float_is_refused_like_any_other() -> None:
    with pytest.raises(ConfigError, match="must be between 0 and 100 years"):
        seconds(10**400)


def test_an_optional_duration_may_be_left_out() -> None:
    assert optional_seconds(None) is None
    assert optional_seconds("1m") == 60.0


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(list(_UNITS))), min_size=1, max_size=6)
)
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in parts)
    assert seconds(text) == pytest.approx(sum(count * _UNITS[unit] for count, unit in parts))


@given(st.text(max_size=20))
def test_any_text_is_either_a_duration_or_a_clear_refusal(text: str) -> None:
    try:
        total = seconds(text)
    except ConfigError:
        return
    assert total >= 0


@given(st.floats(0, 3_000_000_000))
def test_words_for_people_are_never_empty_and_have_two_units_at_most(total: float) -> None:
    words = in_words(total).split()
    assert 1 <= len(words) <= 2


@pytest.mark.parametrize(
    ("total", "words"),
    [
        (0, "0ms"),
        (0.25, "250ms"),
        (1, "1s"),
        (2.5, "2.5s"),
        (59.6, "1m"),
        (125, "2m 5s"),
        (90061, "1d 1h"),
    ],
)
def test_words_for_people(total: float, words: str) -> None:
    assert in_words(total) == words
