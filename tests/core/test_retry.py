"""When to try again, and after how long."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import Retry
from headway.errors import ConfigError

shapes = st.sampled_from(["exponential", "linear", "constant"])


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        ("exponential", [2, 4, 8, 16, 20, 20]),
        ("linear", [2, 4, 6, 8, 10, 12]),
        ("constant", [2, 2, 2, 2, 2, 2]),
        (lambda attempt: attempt * 7, [7, 14, 20, 20, 20, 20]),
        (lambda attempt: "3s", [3, 3, 3, 3, 3, 3]),
        (lambda attempt: timedelta(minutes=attempt), [20, 20, 20, 20, 20, 20]),
    ],
)
def test_each_shape_grows_as_its_name_says(backoff, delays: list[int]) -> None:
    policy = Retry(backoff=backoff, base="2s", cap="20s", jitter=0)
    assert [policy.delay(attempt, chance=0) for attempt in range(1, 7)] == delays


@given(
    shape=shapes,
    attempt=st.integers(1, 32_000),
    jitter=st.floats(0, 1),
    chance=st.floats(0, 1, exclude_max=True),
    base=st.floats(0, 1e6),
    more=st.floats(0, 1e9),
)
def test_jitter_takes_off_no_more_than_its_share_and_the_cap_always_holds(
    shape, attempt: int, jitter: float, chance: float, base: float, more: float
) -> None:
    cap = base + more
    policy = Retry(32_000, backoff=shape, base=base, cap=cap, jitter=jitter)
    target = Retry(32_000, backoff=shape, base=base, cap=cap, jitter=0).delay(attempt, chance)
    delay = policy.delay(attempt, chance)
    assert 0 <= target <= cap
    assert target * (1 - jitter) - 1e-6 <= delay <= target * (1 + 1e-9)


@given(shape=shapes, attempt=st.integers(1, 31_999))
def test_delays_never_shrink_from_one_attempt_to_the_next(shape, attempt: int) -> None:
    policy = Retry(32_000, backoff=shape, base="3s", cap="1d", jitter=0)
    assert policy.delay(attempt, 0) <= policy.delay(attempt + 1, 0)


@pytest.mark.parametrize("attempt", [61, 1_100, 32_000, 10**9])
@pytest.mark.parametrize(
    "backoff",
    ["exponential", "linear", lambda n: 2**n if n < 40_000 else 10**9, lambda n: float("inf")],
)
def test_huge_attempts_end_at_the_cap_rather_than_in_an_overflow(backoff, attempt: int) -> None:
    assert Retry(backoff=backoff, base="1m", cap="1h", jitter=0).delay(attempt, 0) == 3600


@pytest.mark.parametrize("wrong", [-1, "soon", None, float("nan")])
def test_a_backoff_function_that_names_no_duration_is_an_error(wrong) -> None:
    with pytest.raises(ConfigError, match="backoff"):
        Retry(backoff=lambda attempt: wrong).delay(1, 0)


@pytest.mark.parametrize(
    ("error", "covered"),
    [
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (FileNotFoundError(), False),
        (OSError(), True),
        (ValueError(), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_an_error_is_covered_if_it_is_one_of_on_and_none_of_never(error, covered: bool) -> None:
    policy = Retry(on=(OSError,), never=(FileNotFoundError,))
    assert policy.covers(error) is covered


def test_the_default_policy_goes_on_for_hours_and_the_quick_one_for_seconds() -> None:
    steady = Retry(jitter=0)
    delays = [steady.delay(attempt, chance=0) for attempt in range(1, steady.max_attempts)]
    assert delays == [2**n for n in range(12)] + [3600] * 7
    assert Retry().jitter == 0.5
    quick = replace(Retry.quick(), jitter=0)
    assert [quick.delay(n, chance=0) for n in range(1, quick.max_attempts)] == [1, 2, 4, 8]


def test_by_default_every_exception_is_tried_again_and_nothing_beyond() -> None:
    assert Retry().covers(RuntimeError())
    assert not Retry().covers(SystemExit())


def test_a_cancellation_by_a_library_is_tried_again_as_exceptions_are() -> None:
    assert Retry().covers(asyncio.CancelledError())
    assert Retry(on=(asyncio.CancelledError,)).covers(asyncio.CancelledError())
    assert not Retry(on=(OSError,)).covers(asyncio.CancelledError())
    assert not Retry(never=(asyncio.CancelledError,)).covers(asyncio.CancelledError())


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 32_001},
        {"max_attempts": 2.5},
        {"max_attempts": True},
        {"max_attempts": "3"},
        {"max_crashes": 0},
        {"max_crashes": 1_001},
        {"max_crashes": True},
        {"max_crashes": "3"},
        {"backoff": "fibonacci"},
        {"jitter": 1.5},
        {"jitter": -0.1},
        {"jitter": float("nan")},
        {"base": "soon"},
        {"cap": -1},
        {"base": "90m"},  # every delay would be that of the cap, an hour
        {"base": "2s", "cap": "1s"},
        {"on": ("ValueError",)},
        {"on": ValueError},
        {"never": (int,)},
        {"never": [ValueError]},
    ],
)
def test_a_policy_that_cannot_be_right_is_refused_when_it_is_made(options) -> None:
    with pytest.raises(ConfigError):
        Retry(**options)


def test_a_policy_with_code_in_it_is_not_stored_with_a_job() -> None:
    for policy in (Retry(backoff=lambda n: n), Retry(on=(OSError,)), Retry(never=(OSError,))):
        with pytest.raises(ConfigError, match="put those on the task itself"):
            policy.stored()


@given(shape=shapes, base=st.floats(0, 1e6), more=st.floats(0, 1e6), jitter=st.floats(0, 1))
def test_a_stored_policy_gives_the_same_delays_and_keeps_the_rest_of_the_task_s(
    shape, base: float, more: float, jitter: float
) -> None:
    given_ = Retry(7, backoff=shape, base=base, cap=base + more, jitter=jitter, max_crashes=9)
    tasks = Retry(max_attempts=3, never=(KeyError,))
    policy = tasks.with_stored(given_.stored())
    assert policy.delay(3, 0.5) == given_.delay(3, 0.5)
    assert policy.never == (KeyError,)
    assert policy.max_crashes == 9
