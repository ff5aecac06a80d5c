"""B15: what cannot be stored, or would not be checked, is refused where it is declared."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import annotated_types
import pydantic
import pytest

from headway import Headway
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
        short: Annotated[str, pydantic.Field(max_length=2, pattern="^[a-z]*$")],
        few: Annotated[int, annotated_types.Gt(0), pydantic.Field(le=5)] = 1,
    ) -> None: ...

    task.call("ab", 5)
    for wrong in (("abc",), ("A",), ("a", 0), ("a", 6)):
        with pytest.raises(InvalidInput):
            task.call(*wrong)


@pytest.mark.parametrize(
    "kind",
    [Annotated[int, pydantic.Strict()], list[Annotated[int, pydantic.Field(gt=0)]]],
    ids=["unknown", "nested"],
)
def test_b15_a_constraint_that_would_not_be_checked_is_refused(app: Headway, kind: Any) -> None:
    def task(odd: Any) -> None: ...

    task.__annotations__["odd"] = kind
    with pytest.raises(ConfigError, match="would not be checked"):
        app.task(task)
