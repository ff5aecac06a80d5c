"""When a schedule is due: every kind of text, and what happens when the clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import cron
from headway.errors import ConfigError

SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def occurrences(text: str, after: str, count: int) -> list[str]:
    """The first occurrences behind a moment, as the clocks of the zone show them."""
    spec = cron.parse(text)
    found, moment = list[str](), datetime.fromisoformat(after).astimezone(UTC)
    for _ in range(count):
        moment = spec.next_after(moment, SINCE)
        if moment is None:
            break
        assert moment.tzinfo is UTC
        found.append(moment.astimezone(spec.zone).isoformat().replace("T", " "))
    return found


# -- what can be written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0 8 * * *", "2026-07-02 08:00:00+00:00"),
        ("  0   8 * * *  ", "2026-07-02 08:00:00+00:00"),
        ("30 0 8 * * *", "2026-07-02 08:00:30+00:00"),
        ("0 8 * * 1-5[Europe/Berlin]", "2026-07-02 08:00:00+02:00"),
        ("0 8 * * SUN[Asia/Kathmandu]", "2026-07-05 08:00:00+05:45"),
        ("0 0 L * *", "2026-07-31 00:00:00+00:00"),
        ("0 0 13 * FRI", "2026-07-03 00:00:00+00:00"),
        ("@hourly", "2026-07-01 13:00:00+00:00"),
        ("@daily", "2026-07-02 00:00:00+00:00"),
        ("@midnight[America/New_York]", "2026-07-02 00:00:00-04:00"),
        ("@Weekly", "2026-07-05 00:00:00+00:00"),
        ("@monthly", "2026-08-01 00:00:00+00:00"),
        ("@yearly", "2027-01-01 00:00:00+00:00"),
        ("@annually", "2027-01-01 00:00:00+00:00"),
        ("@every 90s", "2026-07-01 12:01:30+00:00"),
        ("@every 1h30m", "2026-07-01 13:30:00+00:00"),
        ("2026-07-09T08:00", "2026-07-09 08:00:00+00:00"),
        ("2026-07-09 08:00[Europe/Berlin]", "2026-07-09 08:00:00+02:00"),
        ("2026-07-09T08:00:30-04:00", "2026-07-09 12:00:30+00:00"),
        ("2026-07-09T08:00:00+02:00[Europe/Berlin]", "2026-07-09 08:00:00+02:00"),
    ],
)
def test_what_can_be_written(text: str, first: str) -> None:
    assert occurrences(text, "2026-07-01T12:00:00Z", 1) == [first]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "invalid schedule"),
        ("0 8 * *", "number of fields"),
        ("0 8 * * * * *", "number of fields"),
        ("61 * * * *", "an invalid minute"),
        ("0 25 * * *", "an invalid hour"),
        ("0 0 0 * *", "an invalid day of month"),
        ("0 0 31 2 *", "an invalid day of month"),
        ("0 0 * 13 *", "an invalid month"),
        ("0 0 * * 8", "an invalid day of week"),
        ("60 0 0 * * *", "an invalid second"),
        ("*/0 * * * *", "an invalid minute"),
        (f"{'9' * 5000} * * * *", "invalid schedule"),
        ("@fortnightly", "the names are @hourly"),
        ("@every", "is not a duration"),
        ("@every soon", "is not a duration"),
        ("@every 100ms", "1s or more"),
        ("@every 5m[Europe/Berlin]", "leave out the brackets"),
        ("0 8 * * *[Europe/Berln]", "did you mean Europe/Berlin"),
        ("0 8 * * *[America]", "unknown time zone 'America'"),
        ("0 8 * * *[../../etc/passwd]", "unknown time zone"),
        ("0 8 * * *[localtime]", "unknown time zone"),
        ("0 8 * * *[]", "unknown time zone ''"),
        ("0 8 * * *[Europe/Berlin", "invalid schedule"),
        ("2026-02-30T08:00", "invalid time"),
        ("2026-07-09T08:00:00+05:00[Europe/Berlin]", "an offset that Europe/Berlin does not have"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cron.parse(text)
    assert problem in str(refused.value)
    assert repr(text)[:100] in str(refused.value)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not text"):
        cron.parse(5)  # type: ignore[arg-type]


# -- when the clocks are changed ------------------------------------------------------------------

BERLIN_FORWARD = "2026-03-28T12:00:00Z"
BERLIN_BACK = "2026-10-24T12:00:00Z"


def test_a_time_that_is_jumped_over_happens_after_the_jump() -> None:
    assert occurrences("30 2 * * *[Europe/Berlin]", BERLIN_FORWARD, 2) == [
        "2026-03-29 03:00:00+02:00",
        "2026-03-30 02:30:00+02:00",
    ]


def test_times_that_are_jumped_over_together_happen_as_one() -> None:
    assert occurrences("0,20,40 2,3 * * *[Europe/Berlin]", BERLIN_FORWARD, 4) == [
        "2026-03-29 03:00:00+02:00",
        "2026-03-29 03:20:00+02:00",
        "2026-03-29 03:40:00+02:00",
        "2026-03-30 02:00:00+02:00",
    ]


def test_a_time_that_comes_twice_happens_the_first_time() -> None:
    assert occurrences("30 2 * * *[Europe/Berlin]", BERLIN_BACK, 2) == [
        "2026-10-25 02:30:00+02:00",
        "2026-10-26 02:30:00+01:00",
    ]


def test_seconds_change_nothing_about_that() -> None:
    forward = occurrences("15 30 2 * * *[Europe/Berlin]", BERLIN_FORWARD, 2)
    assert forward == ["2026-03-29 03:00:00+02:00", "2026-03-30 02:30:15+02:00"]
    back = occurrences("15 30 2 * * *[Europe/Berlin]", BERLIN_BACK, 2)
    assert back == ["2026-10-25 02:30:15+02:00", "2026-10-26 02:30:15+01:00"]


def test_what_repeats_goes_on_as_time_does() -> None:
    assert occurrences("30 * * * *[Europe/Berlin]", "2026-03-28T23:45:00Z", 3) == [
        "2026-03-29 01:30:00+01:00",
        "2026-03-29 03:30:00+02:00",
        "2026-03-29 04:30:00+02:00",
    ]
    assert occurrences("30 * * * *[Europe/Berlin]", "2026-10-24T23:45:00Z", 3) == [
        "2026-10-25 02:30:00+02:00",
        "2026-10-25 02:30:00+01:00",
        "2026-10-25 03:30:00+01:00",
    ]


def test_midnight_that_does_not_exist_is_one_o_clock() -> None:
    assert occurrences("@daily[Africa/Cairo]", "2026-04-23T12:00:00Z", 2) == [
        "2026-04-24 01:00:00+03:00",
        "2026-04-25 00:00:00+03:00",
    ]


def test_half_an_hour_is_enough_of_a_change() -> None:
    """Where the library under it loses its way: it walks in whole hours."""
    assert occurrences("45 * * * *[Australia/Lord_Howe]", "2026-10-03T15:20:00Z", 2) == [
        "2026-10-04 02:45:00+11:00",
        "2026-10-04 03:45:00+11:00",
    ]
    assert occurrences("*/20 5 * * *[Australia/Lord_Howe]", "2026-10-03T12:00:00Z", 1) == [
        "2026-10-04 05:00:00+11:00"
    ]


def test_a_day_that_does_not_exist_ends_at_once() -> None:
    """Samoa went over the date line: there was no 30 December 2011."""
    assert occurrences("0 8 * * *[Pacific/Apia]", "2011-12-29T19:00:00Z", 2) == [
        "2011-12-31 00:00:00+14:00",
        "2011-12-31 08:00:00+14:00",
    ]


def test_a_single_time_follows_the_same_rule() -> None:
    gap = occurrences("2026-03-29T02:30[Europe/Berlin]", BERLIN_FORWARD, 2)
    assert gap == ["2026-03-29 03:00:00+02:00"]
    fold = occurrences("2026-10-25T02:30[Europe/Berlin]", BERLIN_BACK, 2)
    assert fold == ["2026-10-25 02:30:00+02:00"]


def test_a_time_that_stands_for_one_that_was_jumped_over_is_known() -> None:
    spec = cron.parse("30 2 * * *[Europe/Berlin]")
    first, second = list(
        spec.between(
            datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC), SINCE
        )
    )
    assert (spec.moved(first), spec.moved(second)) == (True, False)


# -- intervals, and the newest of many ------------------------------------------------------------


def test_an_interval_counts_from_when_it_was_made() -> None:
    spec, since = cron.parse("@every 90s"), datetime(2026, 7, 1, 12, 0, 7, 5, tzinfo=UTC)
    expected = [since + timedelta(seconds=90 * number) for number in (1, 2, 3)]
    assert spec.next_after(since - timedelta(days=1), since) == expected[0]
    assert list(spec.between(since, expected[2], since)) == expected


def test_an_interval_is_elapsed_time_whatever_the_clocks_show() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    since = datetime(2026, 3, 28, 12, tzinfo=berlin)
    (found,) = cron.parse("@every 1d").between(since, since + timedelta(days=1, hours=1), since)
    assert found == datetime(2026, 3, 29, 13, tzinfo=berlin)


def test_a_single_time_has_one_occurrence() -> None:
    spec = cron.parse("2026-07-09T08:00")
    at = datetime(2026, 7, 9, 8, tzinfo=UTC)
    assert spec.last == at
    assert spec.next_after(at - timedelta(microseconds=1), SINCE) == at
    assert spec.next_after(at, SINCE) is None


def test_there_is_nothing_after_the_last_year() -> None:
    end = datetime(9999, 12, 31, 23, 59, 30, tzinfo=UTC)
    for text in ("* * * * *", "0 0 * * *", "@every 1d", "0 0 1 1 *[Pacific/Apia]"):
        assert cron.parse(text).next_after(end, SINCE) is None


@given(
    st.sampled_from(["* * * * * *", "*/7 * * * *", "0 8 * * 1-5", "@every 90s", "0 0 29 2 *"]),
    st.integers(1, 50),
    st.integers(0, 400_000),
)
@settings(max_examples=60, derandomize=True)
def test_the_newest_are_the_last_of_all(text: str, count: int, span: int) -> None:
    spec, until = cron.parse(text), datetime(2026, 7, 1, 12, 0, 30, tzinfo=UTC)
    # All seconds of a span are many: few enough to walk through them.
    after = until - timedelta(seconds=span // 200 if text.startswith("* *") else span)
    assert (
        spec.newest(count, after, until, SINCE) == list(spec.between(after, until, SINCE))[-count:]
    )


def test_the_newest_of_a_year_of_seconds_are_found_without_a_walk() -> None:
    until = datetime(2026, 7, 1, tzinfo=UTC)
    asked = list[datetime]()

    class Counted(cron.Every):
        def next_after(self, moment: datetime, since: datetime) -> datetime | None:
            asked.append(moment)
            return super().next_after(moment, since)

    spec = Counted("@every 1s", ZoneInfo("UTC"), timedelta(seconds=1))
    found = spec.newest(100, until - timedelta(days=365), until, until - timedelta(days=365))
    assert found == [until - timedelta(seconds=number) for number in range(99, -1, -1)]
    assert len(asked) < 1000
