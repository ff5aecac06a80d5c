"""Limits as people write them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import Headway, Key, Limit
from headway.core.limits import BY_LIMIT, as_limit, in_words, per_second, rate_in_words
from headway.errors import ConfigError
from headway.store.statements.controls import LockedLimit


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ("10/s", 10.0),
        ("100/min", 100 / 60),
        ("90/m", 1.5),
        ("1/10s", 0.1),
        ("2.5/hour", 2.5 / 3600),
        (" 7 / 2 d ", 7 / 172_800),
        ("3/SECOND", 3.0),
        ("1000000/s", 1e6),
    ],
)
def test_a_rate_is_so_many_in_a_time(rate: str, expected: float) -> None:
    assert per_second(rate) == pytest.approx(expected)


@pytest.mark.parametrize(
    "rate",
    [
        "",
        "10",
        "/s",
        "10/",
        "ten/s",
        "10/week",
        "-1/s",
        "0/s",
        "1/0s",
        "1e3/s",
        "1000001/s",
        "1/9999d",
    ],
)
def test_what_is_no_rate_is_refused_by_name(rate: str) -> None:
    with pytest.raises(ConfigError, match="rate"):
        per_second(rate)
    with pytest.raises(ConfigError, match="rate"):
        Limit(rate=rate)


@pytest.mark.parametrize("rate", [10, 1.5, None, b"1/s"])
def test_a_rate_is_a_text(rate: Any) -> None:
    with pytest.raises(ConfigError, match="invalid rate"):
        per_second(rate)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs concurrency"),
        ({"burst": 3}, "needs concurrency"),
        ({"concurrency": 2, "burst": 3}, "needs a rate"),
        ({"concurrency": -1}, "concurrency -1"),
        ({"concurrency": 1_000_001}, "concurrency 1000001"),
        ({"concurrency": True}, "concurrency True"),
        ({"concurrency": 1.5}, "concurrency 1.5"),
        ({"concurrency": "5"}, "concurrency '5'"),
        ({"rate": "1/s", "burst": 0}, "burst 0"),
        ({"key": lambda n: n, "concurrency": 0}, "concurrency 0"),
        ({"key": 7, "concurrency": 1}, "key of a limit"),
        ({"key": lambda n: n}, "needs concurrency"),
    ],
)
def test_what_is_no_limit_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Limit(**given)


def test_none_at_once_shuts_a_task_but_not_each_key() -> None:
    assert Limit(concurrency=0).concurrency == 0


@pytest.mark.parametrize(
    ("rate", "burst", "at_once"),
    [("1/s", None, 1), ("100/min", None, 1), ("19/s", None, 1), ("200/s", None, 20), ("1/s", 7, 7)],
)
def test_a_rate_without_a_burst_starts_what_it_earns_in_a_tenth_of_a_second(
    rate: str, burst: int | None, at_once: int
) -> None:
    assert Limit(rate=rate, burst=burst).at_once == at_once


def test_a_limit_without_a_rate_has_no_burst() -> None:
    limit = Limit(concurrency=5)
    assert (limit.per_second, limit.at_once) == (None, None)


@given(st.integers(1, 999), st.sampled_from(["s", "min", "h", "d"]))
def test_a_rate_in_words_says_the_same_rate(count: int, unit: str) -> None:
    rate = per_second(f"{count}/{unit}")
    assert per_second(rate_in_words(rate)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((5, None, None), "5 at once"),
        ((None, 10.0, 1), "10/s"),
        ((5, 100 / 60, 10), "5 at once, 100/min in bursts of 10"),
        ((0, None, None), "0 at once"),
        ((None, None, None), ""),
    ],
)
def test_limits_in_words(numbers: tuple[Any, ...], words: str) -> None:
    assert in_words(*numbers) == words


def test_a_task_takes_a_limit_and_nothing_else() -> None:
    assert as_limit(None) is None
    hw = Headway("postgresql://nowhere")
    for bad in (5, "10/s", {"concurrency": 5}):
        with pytest.raises(ConfigError, match="is not a Limit"):
            hw.task(limit=bad)(_work)  # type: ignore[call-overload]


async def _work(tenant: str, page: int = 1) -> None: ...


def test_the_key_of_a_call_is_one_of_its_handler() -> None:
    hw = Headway("postgresql://nowhere")
    by_tenant = Limit(key=lambda tenant, **_: tenant or None, concurrency=2)
    work: Any = hw.task(name="sync", limit=by_tenant)(_work)
    key_of = work.definition.limit_key_of
    assert key_of({"tenant": "acme"}) == "sync/acme"
    assert key_of({"tenant": ""}) is None
    fixed: Any = hw.task(name="fixed", limit=Limit(key="all", concurrency=1))(_work)
    assert fixed.definition.limit_key_of({"tenant": "acme"}) == "fixed/all"
    assert BY_LIMIT == 0


def test_a_limit_by_key_and_a_concurrency_key_exclude_each_other() -> None:
    hw = Headway("postgresql://nowhere")
    by_tenant = Limit(key=lambda tenant, **_: tenant, concurrency=2)
    with pytest.raises(ConfigError, match="leave out one of them"):
        hw.task(limit=by_tenant, concurrency_key=Key("k"))(_work)


def test_the_next_token_comes_when_the_last_one_taken_is_earned() -> None:
    limit = LockedLimit("queue", "q", rate=2.0, burst=3, spent_for=0.0)
    assert [limit.token_in(taken) for taken in range(5)] == [0, 0, 0, 0.5, 1.0]
    later = LockedLimit("queue", "q", rate=2.0, burst=3, spent_for=1.5)
    assert later.token_in(0) == 0.5
    assert LockedLimit("queue", "q", None, None, 0.0).token_in(9) is None
