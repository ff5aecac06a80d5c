"""Every supported type goes out as JSON and comes back as itself."""

from datetime import timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.core import codec
from headway.errors import InvalidInput
from tests.core import shapes
from tests.core.shapes import KINDS, Circle, Line, Order, Point

# Values that jsonb and JSON can hold: no NUL, no lone surrogates, finite numbers.
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
whole = st.integers(-(2**63), 2**64 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
# Offsets of whole minutes, as ISO 8601 has them.
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(timezones=offsets | st.none())
points = st.builds(Point, whole, whole)
orders = st.builds(
    Order,
    id=st.uuids(),
    total=st.decimals(-1000, 1000, places=2),
    placed=moments,
    lines=st.lists(text),
)
addresses = st.fixed_dictionaries({"street": text, "zip": st.none() | text})
people = st.builds(
    shapes.Person, text, st.dates(), st.none() | addresses, st.sets(text, max_size=3)
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": whole,
    "float": finite,
    "str": text,
    "bytes": st.binary(max_size=50),
    "none": st.none(),
    "datetime": moments,
    "date": st.dates(),
    "time": st.times(),
    "timedelta": st.timedeltas(),
    "uuid": st.uuids(),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False),
    "enum": st.sampled_from(shapes.Colour),
    "int enum": st.sampled_from(shapes.Level),
    "struct": points,
    "tagged union": st.builds(Line, st.lists(points, max_size=3))
    | st.builds(Circle, points, finite),
    "typed dict": addresses,
    "named tuple": st.builds(shapes.Pair, whole, text),
    "dataclass": people,
    "attrs": st.builds(shapes.Box, whole, text),
    "pydantic": orders,
    "optional": st.none() | people,
    "list of models": st.lists(orders, max_size=3),
    "dict of structs": st.dictionaries(text, points, max_size=3),
    "tuple": st.tuples(whole, text, points),
    "set": st.sets(whole, max_size=5),
    "frozen set": st.frozensets(text, max_size=5),
    "keys that are no text": st.dictionaries(whole, st.uuids(), max_size=3),
    "nested": st.dictionaries(text, st.lists(st.none() | people, max_size=3), max_size=3),
}


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_value_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[name])
    parameters = codec.Parameters("task", {"value": (KINDS[name], codec.REQUIRED)})
    back = parameters.decode(parameters.encode({"value": value}))["value"]
    assert back == value
    assert type(back) is type(value)
    assert codec.Shape(KINDS[name]).decode(codec.encode(value)) == value


plain = st.recursive(
    st.none() | st.booleans() | whole | finite | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_untyped_values_come_back_as_plain_ones(value: Any) -> None:
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("int", "1"),
        ("int", 1.5),
        ("str", 1),
        ("bool", 1),
        ("uuid", "not one"),
        ("datetime", "yesterday"),
        ("decimal", "a lot"),
        ("enum", "green"),
        ("struct", {"x": 1, "y": "far"}),
        ("struct", {"y": 1}),
        ("tagged union", {"type": "square"}),
        ("typed dict", {"street": "a"}),
        ("dataclass", {"name": "Ada"}),
        ("attrs", {"width": "wide"}),
        ("pydantic", {"id": "x"}),
        ("dict of structs", {"a": 1}),
        ("tuple", [1, "a"]),
        ("set", [1, "a"]),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(name: str, wrong: Any) -> None:
    parameters = codec.Parameters("task", {"value": (KINDS[name], codec.REQUIRED)})
    with pytest.raises(InvalidInput, match=r"\$\.value"):
        parameters.encode({"value": wrong})
    with pytest.raises(InvalidInput, match=r"\$\.value"):
        parameters.decode(msgspec.json.encode({"value": wrong}))
