"""Keys of jobs: how they may be written, and what the key of a call is."""

from datetime import timedelta
from typing import Any

import pytest

from headway import Context, Depends, Key, Unique
from headway.core import keys
from headway.errors import ConfigError, InvalidInput
from tests.core.test_definition import define, get_db


@pytest.mark.parametrize("kind", [Key, Unique])
@pytest.mark.parametrize("by", ["a", "größer", "two words", "x" * 200, lambda **_: "a", str])
def test_a_key_is_text_or_a_function(kind: Any, by: Any) -> None:
    assert kind(by).key is by


@pytest.mark.parametrize("kind", [Key, Unique])
@pytest.mark.parametrize("by", ["", "x" * 201, "a\nb", "a\0", "\ud800", None, 5, b"a", ["a"]])
def test_anything_else_is_no_key(kind: Any, by: Any) -> None:
    with pytest.raises(ConfigError, match="must be text of 1 to 200 printable characters"):
        kind(by)


@pytest.mark.parametrize("limit", [1, 2, 32_000])
def test_a_limit_is_a_small_whole_number(limit: int) -> None:
    assert Key("a", limit=limit).limit == limit


@pytest.mark.parametrize("limit", [0, -1, 32_001, True, 1.0, "2", None])
def test_any_other_limit_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigError, match="limit"):
        Key("a", limit=limit)


def test_what_is_ordered_runs_one_at_a_time() -> None:
    assert Key("a", ordered=True).limit == 1
    with pytest.raises(ConfigError, match="must be 1"):
        Key("a", limit=2, ordered=True)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"policy": "ignore"}, "policy 'ignore' must be skip, replace or reject"),
        ({"scope": "running"}, "scope 'running' must be unfinished or waiting"),
        ({"period": 0}, "must be more than 0"),
        ({"period": "soon"}, "period 'soon' is not a duration"),
        ({"period": "1h", "policy": "replace"}, "cannot have policy 'replace'"),
    ],
)
def test_a_unique_key_that_cannot_be_right_is_refused(options: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Unique("a", **options)


def test_only_what_waits_can_be_replaced() -> None:
    assert Unique("a", policy="replace").scope == "waiting"
    assert Unique("a", policy="replace", scope="unfinished").scope == "waiting"
    assert Unique("a").scope == "unfinished"
    assert Unique("a", policy="reject", scope="waiting").scope == "waiting"


def test_a_period_may_be_written_like_any_duration() -> None:
    for period in ("1h", 3600, timedelta(hours=1)):
        assert Unique("a", period=period, policy="reject").period == period


def test_text_and_functions_stand_for_a_key_with_nothing_else_to_say() -> None:
    def by(**_: Any) -> str:
        return "a"

    assert keys.as_key("a") == Key("a")
    assert keys.as_key(by) == Key(by)
    assert keys.as_unique("a") == Unique("a")
    given, unique = Key("a", limit=3), Unique("a", policy="reject")
    assert keys.as_key(given) is given
    assert keys.as_unique(unique) is unique
    assert keys.as_key(None) is None
    assert keys.as_unique(None) is None


def test_a_function_is_called_with_the_arguments_by_name() -> None:
    assert keys.name(lambda a, b: f"{a}-{b}", {"a": 1, "b": 2}, "unique") == "1-2"
    assert keys.name("fixed", {"a": 1}, "unique") == "fixed"
    assert keys.name(lambda **_: None, {"a": 1}, "unique") is None


@pytest.mark.parametrize("found", ["", "x" * 201, "a\nb", 5, b"a"])
def test_a_function_that_returns_no_key_fails_the_call_by_what_it_was_to_name(found: Any) -> None:
    with pytest.raises(InvalidInput, match=r"concurrency_key .* must be 1 to 200 printable"):
        keys.name(lambda **_: found, {}, "concurrency_key")


def test_the_key_of_a_call_sees_defaults_and_nothing_that_is_injected() -> None:
    def charge(ctx: Context, account: int, currency: str = "EUR", db: str = Depends(get_db)): ...

    seen: list[dict[str, Any]] = []

    def by(**arguments: Any) -> str:
        seen.append(arguments)
        return "{account}-{currency}".format(**arguments)

    made = define(charge)
    assert made.key_of(Key(by), made.bind((7,), {})) == "7-EUR"
    assert made.unique_of(Unique(by), made.bind((), {"account": 7, "currency": "USD"})) == "7-USD"
    assert seen == [{"account": 7, "currency": "EUR"}, {"account": 7, "currency": "USD"}]


def test_a_task_without_keys_has_none_for_any_call() -> None:
    def charge(account: int): ...

    made = define(charge)
    assert made.key_of(None, {"account": 1}) is None
    assert made.unique_of(None, {"account": 1}) is None
