"""Which occurrences are made jobs of at a moment: on time, late, missed, ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import cron
from headway.core.firing import CatchUp, FiringPlan, jittered, plan, written

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    """A time of this day, or a whole moment."""
    return datetime.fromisoformat(text if "T" in text else f"2030-01-01T{text}").replace(tzinfo=UTC)


def planned(
    spec: str = "@hourly",
    *,
    now: datetime,
    after: datetime = NOON,
    catch_up: CatchUp = "one",
    most: int = 100,
    ends: datetime | None = None,
) -> FiringPlan:
    return plan(
        cron.parse(spec),
        after=after,
        now=now,
        since=NOON,
        ends=ends,
        catch_up=catch_up,
        most=most,
    )


@pytest.mark.parametrize("catch_up", ["skip", "one", "all"])
def test_what_is_due_is_made_once_whatever_the_rule(catch_up: CatchUp) -> None:
    assert planned(now=at("13:00"), catch_up=catch_up) == FiringPlan(
        [at("13:00")], at("14:00"), None
    )
    late = at("13:00:59")
    assert planned(now=late, catch_up=catch_up) == FiringPlan([at("13:00")], at("14:00"), None)


def test_before_it_is_due_nothing_is_made() -> None:
    assert planned(now=NOON) == FiringPlan([], at("13:00"), None)
    assert planned(now=at("12:59:59")) == FiringPlan([], at("13:00"), None)


def test_an_occurrence_is_missed_after_a_minute() -> None:
    assert planned(now=at("13:00:59"), catch_up="skip").occurrences == [at("13:00")]
    missed = planned(now=at("13:01"), catch_up="skip")
    assert missed == FiringPlan([], at("14:00"), at("13:00"))


def test_one_job_stands_for_all_that_were_missed() -> None:
    assert planned(now=at("16:30")) == FiringPlan([at("16:00")], at("17:00"), at("13:00"))


def test_one_that_is_due_stands_for_those_that_were_missed() -> None:
    assert planned(now=at("16:00")) == FiringPlan([at("16:00")], at("17:00"), at("13:00"))


def test_skip_makes_only_what_is_not_missed() -> None:
    assert planned(now=at("16:30"), catch_up="skip") == FiringPlan([], at("17:00"), at("13:00"))
    on_time = planned(now=at("16:00"), catch_up="skip")
    assert on_time == FiringPlan([at("16:00")], at("17:00"), at("13:00"))


def test_all_makes_every_one_oldest_first() -> None:
    every = [at("13:00"), at("14:00"), at("15:00"), at("16:00")]
    assert planned(now=at("16:30"), catch_up="all") == FiringPlan(every, at("17:00"), None)


def test_all_is_bounded_and_keeps_the_newest() -> None:
    found = planned(now=at("16:30"), catch_up="all", most=2)
    assert found == FiringPlan([at("15:00"), at("16:00")], at("17:00"), at("13:00"))


def test_years_of_missed_seconds_are_decided_at_once() -> None:
    """Fails by never ending, were all of them walked through."""
    later = NOON + timedelta(days=3650)
    found = planned("* * * * * *", now=later, catch_up="all", most=3)
    assert found.occurrences == [later - timedelta(seconds=s) for s in (2, 1, 0)]
    assert found.dropped_since == NOON + timedelta(seconds=1)


def test_several_within_a_minute_are_only_late() -> None:
    found = planned("@every 20s", now=at("12:00:55"), catch_up="one")
    assert found == FiringPlan([at("12:00:20"), at("12:00:40")], at("12:01:00"), None)


@pytest.mark.parametrize("catch_up", ["skip", "one", "all"])
def test_what_is_only_late_is_made_whatever_the_rule_and_however_often_it_is_due(
    catch_up: CatchUp,
) -> None:
    """As when the firing worker dies and another takes over."""
    found = planned("@every 1s", now=at("12:00:30"), catch_up=catch_up, most=5)
    assert len(found.occurrences) == 30
    assert found.dropped_since is None


@pytest.mark.parametrize(("catch_up", "made"), [("skip", 1), ("one", 1), ("all", 7)])
def test_after_an_outage_a_minute_of_a_busy_schedule_is_no_exception(
    catch_up: CatchUp, made: int
) -> None:
    found = planned("@every 1s", now=at("15:00"), catch_up=catch_up, most=7)
    assert len(found.occurrences) == made
    assert found.occurrences[-1] == at("15:00")
    assert found.dropped_since == at("12:00:01")


def test_the_end_is_the_last_moment_that_counts() -> None:
    ends = at("14:00")
    assert planned(now=at("13:00"), ends=ends) == FiringPlan([at("13:00")], at("14:00"), None)
    assert planned(now=at("14:00"), after=at("13:00"), ends=ends) == FiringPlan(
        [at("14:00")], None, None
    )
    just_before = ends - timedelta(seconds=1)
    assert planned(now=at("13:00"), ends=just_before) == FiringPlan([at("13:00")], None, None)


@pytest.mark.parametrize(
    ("catch_up", "made"),
    [("skip", []), ("one", ["14:00"]), ("all", ["13:00", "14:00"])],
)
def test_what_was_missed_before_the_end_is_made_up_for_after_it(
    catch_up: CatchUp, made: list[str]
) -> None:
    found = planned(now=at("20:00"), ends=at("14:30"), catch_up=catch_up)
    assert found.occurrences == [at(one) for one in made]
    assert found.next_at is None


def test_after_its_end_nothing_is_due() -> None:
    assert planned(now=at("20:00"), after=at("15:00"), ends=at("14:00")) == FiringPlan(
        [], None, None
    )


def test_a_clock_that_was_set_back_makes_nothing_twice() -> None:
    assert planned(now=at("12:30"), after=at("13:00")) == FiringPlan([], at("14:00"), None)


def test_a_single_time_is_made_up_for_unless_it_is_to_be_skipped() -> None:
    once = "2030-01-01T13:00"
    assert planned(once, now=at("13:00")) == FiringPlan([at("13:00")], None, None)
    assert planned(once, now=at("20:00")) == FiringPlan([at("13:00")], None, None)
    assert planned(once, now=at("20:00"), catch_up="skip") == FiringPlan([], None, at("13:00"))
    assert planned(once, now=at("20:00"), after=at("13:00")) == FiringPlan([], None, None)


_SPECS = ["@hourly", "*/7 * * * *", "@every 13m", "30 2 * * *[Europe/Berlin]", "0 0 L * *"]


@settings(max_examples=60)
@given(
    spec=st.sampled_from(_SPECS),
    steps=st.lists(st.integers(1, 40_000), min_size=1, max_size=12),
)
def test_looking_at_any_moments_makes_each_occurrence_once_and_in_order(
    spec: str, steps: list[int]
) -> None:
    done, made = NOON, list[datetime]()
    for step in steps:
        now = done + timedelta(seconds=step)
        found = planned(spec, now=now, after=done, catch_up="all", most=10_000)
        assert found.next_at is None or found.next_at > now
        made += found.occurrences
        done = now
    assert made == list(cron.parse(spec).between(NOON, done, NOON))


@settings(max_examples=60)
@given(spec=st.sampled_from(_SPECS), step=st.integers(1, 4_000_000))
def test_the_rules_agree_on_what_the_newest_is(spec: str, step: int) -> None:
    now = NOON + timedelta(seconds=step)
    made: dict[Any, list[datetime]] = {
        rule: planned(spec, now=now, catch_up=rule, most=10_000).occurrences
        for rule in ("skip", "one", "all")
    }
    assert made["one"][-1:] == made["all"][-1:]
    assert made["skip"] == [one for one in made["all"] if now - one < timedelta(minutes=1)]
    assert bool(made["one"]) == bool(made["all"])


# -- jitter ---------------------------------------------------------------------------------------


def test_jitter_is_the_same_in_every_process() -> None:
    here, there = NOON, NOON.astimezone(ZoneInfo("Asia/Kathmandu"))
    assert jittered("nightly", here, 600) == jittered("nightly", there, 600)
    assert jittered("nightly", here, 600) == at("12:01:08.436086"), "in every version"
    assert jittered("nightly", here, 0) == here


def test_jitter_stays_within_its_bounds_and_spreads() -> None:
    moments = [NOON + timedelta(hours=n) for n in range(1000)]
    late = sorted((jittered("nightly", one, 600) - one).total_seconds() for one in moments)
    assert late[0] >= 0
    assert late[-1] < 600
    assert max(b - a for a, b in pairwise([0.0, *late, 600.0])) < 15, "no part of it is left out"


def test_schedules_of_the_same_time_are_spread() -> None:
    assert len({jittered(f"tenant {n}", NOON, 600) for n in range(100)}) == 100


def test_moments_are_written_in_utc() -> None:
    berlin = datetime(2026, 3, 29, 8, tzinfo=ZoneInfo("Europe/Berlin"))
    assert written(berlin) == "2026-03-29T06:00:00Z"
    assert written(NOON + timedelta(microseconds=5)) == "2030-01-01T12:00:00.000005Z"
