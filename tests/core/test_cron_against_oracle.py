"""When a schedule is due, against an oracle that walks through every minute of zones and years."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.core import cron
from headway.errors import ConfigError
from tests.core import cron_oracle

SINCE = datetime(2026, 1, 1, tzinfo=UTC)

ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Asuncion",
    "America/Havana",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "UTC",
]


@cache
def _changes(zone: str, year: int) -> list[datetime]:
    return cron_oracle.changes(ZoneInfo(zone), year)


@st.composite
def moments(draw: st.DrawFn) -> tuple[ZoneInfo, datetime]:
    """A zone, and a moment shortly before its clocks are changed; any moment if they are not."""
    zone, year = draw(st.sampled_from(ZONES)), draw(st.integers(2004, 2031))
    near = _changes(zone, year) or [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=draw(days))]
    return ZoneInfo(zone), draw(st.sampled_from(near))


days = st.integers(0, 364)


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.sampled_from([2, 3, 5, 7, 10, 15, 30])
    plain = st.one_of(number.map(str), ranges)
    stepped = st.tuples(st.one_of(st.just("*"), ranges), steps).map(lambda p: f"{p[0]}/{p[1]}")
    some = st.lists(plain, min_size=2, max_size=3).map(",".join)
    return st.one_of(st.just("*"), number.map(str), plain, stepped, some)


# Most changes are made in the small hours; most expressions should have something to do there.
hours = st.one_of(fields(0, 4), fields(0, 23), st.sampled_from(["23", "0", "1", "2", "3"]))
weekdays = st.one_of(st.just("*"), fields(0, 7), st.sampled_from(["SUN", "MON-FRI", "SAT,SUN"]))
expressions = st.tuples(
    fields(0, 59),
    hours,
    st.one_of(st.just("*"), st.just("*"), fields(1, 31)),
    st.one_of(st.just("*"), st.just("*"), fields(1, 12)),
    st.one_of(st.just("*"), weekdays),
).map(" ".join)


def _agree(
    expression: str, zone: ZoneInfo, after: datetime, until: datetime, **walk: timedelta
) -> None:
    try:
        spec = cron.parse(f"{expression}[{zone.key}]")
    except ConfigError:  # a day that none of its months has
        assert cron_oracle.due(expression, zone, after, until, **walk) == []
        return
    # In whatever zone a moment is given, it is the same moment.
    found = list(spec.between(after.astimezone(zone), until.astimezone(zone), SINCE))
    assert found == cron_oracle.due(expression, zone, after, until, **walk)


@given(moments(), expressions, st.integers(0, 24 * 60), st.integers(0, 59))
@example(
    (ZoneInfo("Australia/Lord_Howe"), datetime(2026, 10, 3, 15, tzinfo=UTC)), "45 * * * *", 9, 0
)
@example(
    (ZoneInfo("America/Sao_Paulo"), datetime(2017, 10, 15, 2, tzinfo=UTC)), "*/10 0 * * *", 9, 0
)
@example((ZoneInfo("America/Sao_Paulo"), datetime(2017, 10, 15, 2, tzinfo=UTC)), "0 0 * * *", 9, 0)
@example((ZoneInfo("Europe/Berlin"), datetime(2026, 10, 25, 0, tzinfo=UTC)), "0-59 2 * * *", 9, 30)
@settings(max_examples=120, derandomize=True)
def test_every_minute_agrees_with_the_oracle(
    moment: tuple[ZoneInfo, datetime], expression: str, minutes: int, seconds: int
) -> None:
    zone, change = moment
    after = change - timedelta(minutes=minutes, seconds=seconds)
    _agree(expression, zone, after, change + timedelta(hours=9))


@given(moments(), expressions, fields(0, 59).filter(lambda field: field != "*"), st.integers(0, 40))
@settings(max_examples=30, derandomize=True)
def test_every_second_agrees_with_the_oracle(
    moment: tuple[ZoneInfo, datetime], expression: str, seconds: str, minutes: int
) -> None:
    zone, change = moment
    after = change - timedelta(minutes=minutes)
    if zone.key == "Pacific/Apia" and change.year == 2011:
        return  # a jump of a day is for the walk by minutes
    until, before = change + timedelta(minutes=100), timedelta(hours=3)
    _agree(f"{seconds} {expression}", zone, after, until, before=before)


def test_the_oracle_is_asked_about_jumps_and_hours_that_come_twice() -> None:
    """The tests above cannot pass for want of a clock that is changed."""
    kinds = set[bool]()
    for zone in ZONES:
        for change in _changes(zone, 2010):
            at = change.astimezone(ZoneInfo(zone)).utcoffset()
            later = (change + timedelta(hours=1)).astimezone(ZoneInfo(zone)).utcoffset()
            kinds.add((later or timedelta(0)) > (at or timedelta(0)))
    assert kinds == {True, False}
