"""Values that can be stored, values that cannot, and the errors for those."""

import threading
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.core import codec
from headway.errors import InvalidInput, PayloadTooLarge


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\0\\u0"'), max_size=30))
@example("\\u0000")
@example("\\\\u0000")
@example("\\\0")
@example("\\\\\0")
@example('"\0"')
@example("\\u0000\0")
def test_a_nul_is_found_exactly_where_there_is_one(text: str) -> None:
    for value in (text, [text], {"key": text}, {text: "value"}, {"a": [{"b": text}]}):
        if "\0" in text:
            with pytest.raises(InvalidInput, match="NUL"):
                codec.encode(value)
        else:
            assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("value", ["\ud800", {"a": "\udfff"}, {"\ud800": 1}, ["x\udc80y"]])
def test_a_lone_surrogate_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be stored as JSON"):
        codec.encode(value)


class Odd:
    pass


@pytest.mark.parametrize(
    "value",
    [
        Odd(),
        object,
        lambda: None,
        (x for x in ()),
        threading.Lock(),
        {"a": [Odd()]},
        {(1, 2): 3},
        3 + 4j,
        range(3),
        pytest.param(10**5_000, id="10**5000"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_the_reason(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be stored as JSON: ."):
        codec.encode(value)


def test_nesting_beyond_reason_is_refused_rather_than_fatal() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput, match="recursion"):
        codec.encode(deep)
    while deep:  # taken apart by hand: freeing it recursively is deep too
        deep = deep.pop()


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInput, match="recursion"):
        codec.encode(loop)


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**40])
def test_whole_numbers_beyond_64_bits_are_kept_exactly(number: int) -> None:
    assert codec.Shape(int).decode(codec.encode(number)) == number
    assert codec.decode(codec.encode(number)) == number


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [None, {"a": (1, n)}]])
def test_s17_a_number_that_json_has_no_word_for_is_refused_wherever_it_stands(number, wrap) -> None:
    with pytest.raises(InvalidInput, match="NaN or infinite; send it as text"):
        codec.encode(wrap(number))


def test_s17_none_is_none() -> None:
    assert codec.encode([None, 1.5, {"a": "null"}]) == b'[null,1.5,{"a":"null"}]'


@pytest.mark.parametrize("text", ['{"x": 1' + "0" * 5000 + "}", "[" * 5000 + "]" * 5000])
def test_s12_what_cannot_be_decoded_is_shown_to_people_as_text(text: str) -> None:
    assert codec.readable(text) == text
    with pytest.raises(InvalidInput):
        codec.Shape[Any](Any).decode(text)


def test_an_exception_is_stored_by_its_repr() -> None:
    assert codec.decode(codec.encode({"why": ValueError("no")})) == {"why": "ValueError('no')"}


def test_payloads_over_the_limit_are_refused_with_both_sizes() -> None:
    assert codec.check_size(b"x" * 10, 10, "the input") == b"x" * 10
    with pytest.raises(
        PayloadTooLarge, match="input is 1,001 bytes of JSON, more than the limit of 1,000"
    ):
        codec.check_size(b"x" * 1_001, 1_000, "the input")


def test_unknown_and_missing_arguments_of_a_stored_call_are_refused() -> None:
    parameters = codec.Parameters("task", {"a": (int, codec.REQUIRED), "b": (int, 2)})
    assert parameters.decode(b'{"a": 1}') == {"a": 1, "b": 2}
    for stored in (b"{}", b'{"a": 1, "c": 3}', b"[1]", b"null", b'{"a": 1', b'"a"'):
        with pytest.raises(InvalidInput):
            parameters.decode(stored)


class Settings(msgspec.Struct):
    retries: list[int] = []


@pytest.mark.parametrize("default", [[1], {"a": 1}, {1}, Settings([1]), (1,), None, "x"])
def test_a_default_of_any_kind_is_stored_and_never_shared(default: Any) -> None:
    kind = type(default) if default is not None else Any
    parameters = codec.Parameters("task", {"value": (kind, default)})
    first = parameters.decode(b"{}")["value"]
    second = parameters.decode(parameters.encode({}))["value"]
    assert first == second == default
    if isinstance(default, list | dict | set | Settings):
        assert first is not default
