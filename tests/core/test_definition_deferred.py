"""Tasks in a module whose annotations are text: `from __future__ import annotations`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import pytest

from headway import Context, Depends
from headway.errors import ConfigError
from tests.core.test_definition import define, get_db, logged, stored

if TYPE_CHECKING:
    from fractions import Fraction


def charge(
    ctx: Context, item: Later, when: datetime | None = None, db: str = Depends(get_db)
) -> Later:
    return item


@logged
def decorated(ctx: Context, item: Later) -> None: ...


def only_checked(share: Fraction) -> None: ...


def only_checked_dependency(a: int, share: Fraction = Depends(get_db)) -> None: ...


def bounded(a: Annotated[int, msgspec.Meta(ge=1)]) -> None: ...


class Later(msgspec.Struct):
    """Defined below the functions that name it."""

    x: int


def test_text_annotations_mean_the_same() -> None:
    made = define(charge)
    assert made.context_parameter == "ctx"
    assert set(made.dependencies) == {"db"}
    assert stored(charge, Later(1)) == {"item": Later(1), "when": None}
    assert made.result.decode('{"x": 3}') == Later(3)


def test_a_decorator_from_another_module_does_not_hide_the_names_of_this_one() -> None:
    assert stored(decorated, Later(1)) == {"item": Later(1)}


def test_constraints_in_annotations_are_checked() -> None:
    assert stored(bounded, 1) == {"a": 1}
    with pytest.raises(Exception, match=">= 1"):
        stored(bounded, 0)


def test_a_type_that_is_imported_for_checkers_only_is_named_in_the_refusal() -> None:
    with pytest.raises(ConfigError, match=r"share in only_checked .*Fraction.* must be importable"):
        define(only_checked).check()


def test_the_type_of_a_dependency_is_nobody_s_business() -> None:
    define(only_checked_dependency).check()
    assert stored(only_checked_dependency, 1) == {"a": 1}
