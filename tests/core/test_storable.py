"""B15: what cannot be stored, or would not be checked, is refused where it is declared."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest

from headway import Batch, Headway
from headway.errors import ConfigError, InvalidInput


@pytest.fixture
def app() -> Headway:
    """Never opened."""
    return Headway("postgresql://nowhere/x")


@pytest.mark.parametrize(
    "kind",
    [
        pathlib.Path,
        complex,
        Callable[[], None],
        list[pathlib.Path],
        dict[str, pathlib.Path | None],
        tuple[int, complex],
    ],
    ids=str,
)
def test_b15_a_type_that_json_does_not_hold_is_refused_at_its_declaration(
    app: Headway, kind: Any
) -> None:
    def task(odd: Any) -> None: ...

    task.__annotations__["odd"] = kind
    with pytest.raises(ConfigError, match=r"task cannot be stored: odd is a .*JSON does not hold"):
        app.task(task)
    with pytest.raises(ConfigError, match="JSON does not hold"):
        app.flow("flow").step(task)
    assert "task" not in app.tasks


@pytest.mark.parametrize("kind", [Mapping[str, int], object, Any, int | None, pydantic.BaseModel])
def test_b15_types_that_can_be_stored_are_not(app: Headway, kind: Any) -> None:
    def task(fine: Any) -> None: ...

    task.__annotations__["fine"] = kind
    app.task(task)


def test_b15_a_type_that_is_defined_further_down_is_read_later(app: Headway) -> None:
    def task(late: Later) -> None: ...  # noqa: F821  # pyright: ignore

    app.task(task)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_b15_a_number_that_is_none_is_named(app: Headway, value: float) -> None:
    @app.task
    def task(share: float) -> None: ...

    with pytest.raises(InvalidInput, match=r"share is -?(nan|inf), which JSON does not hold"):
        task.call(value)


def test_b15_constraints_of_pydantic_are_kept(app: Headway) -> None:
    @app.task
    def task(
        short: Annotated[str, pydantic.Field(max_length=2, pattern="^[a-z]*$", description="few")],
        few: Annotated[int, annotated_types.Gt(0), pydantic.Field(le=5)] = 1,
    ) -> None: ...

    task.call("ab", 5)
    for wrong in (("abc",), ("A",), ("a", 0), ("a", 6)):
        with pytest.raises(InvalidInput):
            task.call(*wrong)
    assert task.definition.parameters.decode('{"short": "ab"}') == {"short": "ab", "few": 1}
    for stored in ('{"short": "abc"}', '{"short": "a", "few": 0}'):
        with pytest.raises(InvalidInput):  # another program made it: a worker refuses it as well
            task.definition.parameters.decode(stored)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (list[Annotated[int, pydantic.Field(gt=0)]], [1], [0]),
        (dict[str, Annotated[str, pydantic.Field(max_length=1)]], {"a": "b"}, {"a": "bc"}),
        (Annotated[str, pydantic.Field(max_length=1)] | None, None, "ab"),
        (Annotated[str | None, pydantic.Field(max_length=1)], None, "ab"),
        (tuple[Annotated[int, pydantic.Field(gt=0)], ...], (1, 2), (1, 0)),
        (Annotated[list[pydantic.PositiveInt], pydantic.Field(max_length=1)], [1], [1, 2]),
        (Annotated[list[pydantic.PositiveInt], pydantic.Field(max_length=1)], [1], [0]),
    ],
    ids=str,
)
def test_b15_constraints_inside_other_types_are_kept(
    app: Headway, kind: Any, right: Any, wrong: Any
) -> None:
    def task(value: Any) -> None: ...

    task.__annotations__["value"] = kind
    made: Any = app.task(task)
    made.call(right)
    with pytest.raises(InvalidInput):
        made.call(wrong)


def test_b15_the_items_of_a_batch_have_constraints(app: Headway) -> None:
    @app.task(batch=Batch(10))
    def task(values: list[Annotated[int, pydantic.Field(gt=0)]]) -> None: ...

    task.call(1)
    with pytest.raises(InvalidInput):
        task.call(0)


@dataclasses.dataclass
class Bounded:
    n: Annotated[int, pydantic.Field(gt=0)]


@dataclasses.dataclass
class Outer:
    inner: list[Bounded]
    again: Outer | None = None


class Typed(TypedDict):
    n: Annotated[int, annotated_types.Gt(0)]


class Model(pydantic.BaseModel):
    n: Annotated[int, pydantic.Field(gt=0)]


class Known(msgspec.Struct):
    n: Annotated[int, msgspec.Meta(gt=0)]
    more: list[Known] = []


@pytest.mark.parametrize("kind", [Model, list[Model], Known])
def test_b15_fields_of_models_and_of_structs_have_constraints(app: Headway, kind: Any) -> None:
    def task(value: Any) -> None: ...

    task.__annotations__["value"] = kind
    made: Any = app.task(task)
    with pytest.raises(InvalidInput):
        made.definition.parameters.decode('{"value": {"n": 0}}')


@pytest.mark.parametrize(
    "kind",
    [
        Annotated[int, pydantic.Strict()],
        Annotated[str, pydantic.Field(pattern="a", coerce_numbers_to_str=True)],
        Annotated[int, pydantic.Field(alias="number")],
        Annotated[int, pydantic.Field(default=3)],
        list[Annotated[int, pydantic.Strict()]],
        Bounded,
        Outer,
        Typed,
    ],
    ids=str,
)
def test_b15_a_constraint_that_would_not_be_checked_is_refused(app: Headway, kind: Any) -> None:
    def task(odd: Any) -> None: ...

    task.__annotations__["odd"] = kind
    with pytest.raises(ConfigError, match="would not be"):
        app.task(task)


def test_b15_a_field_as_a_default_is_refused(app: Headway) -> None:
    def task(n: int = pydantic.Field(gt=0)) -> None: ...

    with pytest.raises(ConfigError, match=r"write n: Annotated\["):
        app.task(task)
