"""Which parameters are injected: by `Context`, by `Annotated[..., Depends(f)]`, by a default."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest
import typing_extensions

from headway import Batch, Context, Depends, Headway
from headway.core.injection import injected
from headway.errors import ConfigError, InvalidInput
from tests.core.test_definition import define, encode, get_db, logged, stored

if TYPE_CHECKING:
    from fractions import Fraction

    import no_such_module


def get_user(ctx: Context, db: Annotated[str, Depends(get_db)]) -> str:
    return db


Database = Annotated[str, "the shop's", Depends(get_db, scope="worker")]
Aliased = typing_extensions.TypeAliasType("Aliased", Annotated[str, Depends(get_db)])


@pytest.fixture
def app() -> Headway:
    """Never opened."""
    return Headway("postgresql://nowhere/x")


def in_the_annotation(db: Annotated[str, Depends(get_db)], n: int) -> None: ...
def by_an_alias(n: int, db: Database) -> None: ...
def by_a_type_alias(n: int, db: Aliased) -> None: ...
def with_an_empty_default(n: int, db: Annotated[str, Depends(get_db)] = Depends()) -> None: ...
def with_another_default(n: int, db: Annotated[str, Depends(get_db)] = "") -> None: ...
def of_a_type_for_checkers(n: int, db: Annotated[Fraction, Depends(get_db)]) -> None: ...
def of_a_module_for_checkers(
    n: int, db: Annotated[no_such_module.Db[int] | None, Depends(get_db)]
) -> None: ...
def found_further_down(n: int, db: Annotated[str, Depends(further_down)]) -> None: ...
def under_a_reserved_name(n: int, conn: Annotated[str, Depends(get_db)]) -> None: ...
@logged
def decorated(n: int, db: Annotated[str, Depends(get_db)]) -> None: ...


def further_down() -> str:
    return "down"


@pytest.mark.parametrize(
    "function",
    [
        in_the_annotation,
        by_an_alias,
        by_a_type_alias,
        with_an_empty_default,
        with_another_default,
        of_a_type_for_checkers,
        of_a_module_for_checkers,
        found_further_down,
        under_a_reserved_name,
        decorated,
    ],
    ids=lambda function: function.__name__,
)
def test_annotated_depends_is_not_part_of_the_call(function: Callable[..., Any]) -> None:
    made = define(function, name="task")
    made.check()
    (found,) = made.dependencies.values()
    assert found.provider in (get_db, further_down)
    assert stored(function, 1) == stored(function, n=1) == {"n": 1}
    with pytest.raises(InvalidInput, match=r"it takes \(n: "):
        encode(made, 1, db="mine")


def test_what_is_injected_may_stand_anywhere() -> None:
    def task(
        ctx: Context,
        first: str = Depends(get_db),
        a: int = 5,
        *,
        b: int,
        last: str = Depends(get_db, scope="worker"),
    ) -> None: ...

    found = injected(task, "task")
    assert {name: (one.provider, one.scope) for name, one in found.dependencies.items()} == {
        "first": (get_db, "job"),
        "last": (get_db, "worker"),
    }
    assert injected(logged(task), "task") == found
    assert injected(dict, "dict").dependencies == {}
    assert stored(task, b=1) == {"a": 5, "b": 1}
    assert stored(task, 2, b=1) == {"a": 2, "b": 1}


def test_the_scope_is_that_of_the_annotation() -> None:
    assert injected(by_an_alias, "task").dependencies["db"].scope == "worker"
    assert injected(with_an_empty_default, "task").dependencies["db"].scope == "job"


def test_a_partial_keeps_the_values_that_it_was_given() -> None:
    given = functools.partial(in_the_annotation, db="mine")
    assert injected(given, "task").dependencies == {}
    assert set(injected(functools.partial(by_an_alias, 1), "task").dependencies) == {"db"}


def unknown_provider(n: int, db: Annotated[str, Depends(no_such_function)]) -> None: ...  # type: ignore[name-defined] # noqa: F821


def test_a_provider_that_is_not_defined_is_refused_when_the_worker_starts(app: Headway) -> None:
    app.task(unknown_provider)
    with pytest.raises(ConfigError, match="no_such_function"):
        app.worker()


def on_itself(n: Annotated[int, Depends(on_the_other)]) -> int:
    return n


def on_the_other(n: Annotated[int, Depends(on_itself)]) -> int:
    return n


def two_depends(db: Annotated[str, Depends(get_db), Depends(further_down)]) -> None: ...
def twice(db: Annotated[str, Depends(get_db)] = Depends(further_down)) -> None: ...
def without_a_function(db: Annotated[str, Depends()]) -> None: ...
def without_anything(db: str = Depends()) -> None: ...
def in_a_list(db: list[Annotated[str, Depends(get_db)]]) -> None: ...
def in_a_union(db: Annotated[str, Depends(get_db)] | None = None) -> None: ...
def in_a_circle(n: Annotated[int, Depends(on_itself)]) -> None: ...
def of_a_worker(user: Annotated[str, Depends(get_user, scope="worker")]) -> None: ...
def optional_in_a_provider(n: Annotated[int, Depends(optional)]) -> None: ...


# -- Context ---------------------------------------------------------------------------------------


def first(ctx: Context, a: int, b: str = "") -> None: ...
def second(a: int, ctx: Context, b: str = "") -> None: ...
def last_by_keyword(a: int, b: str = "", *, ctx: Context) -> None: ...
def annotated(a: int, ctx: Annotated[Context, "the job"], b: str = "") -> None: ...


@pytest.mark.parametrize(
    "function", [first, second, last_by_keyword, annotated], ids=lambda f: f.__name__
)
def test_a_context_is_found_by_its_type_in_any_position(function: Callable[..., Any]) -> None:
    made = define(function)
    assert made.context_parameter == "ctx"
    assert stored(function, 1) == {"a": 1, "b": ""}
    assert stored(function, 1, "x") == stored(function, b="x", a=1) == {"a": 1, "b": "x"}
    with pytest.raises(InvalidInput, match=r"it takes \(a: 'int'"):
        encode(made, 1, ctx=None)


class Mine(Context): ...


def optional(ctx: Context | None = None) -> int: ...  # type: ignore[empty-body]
def old_optional(a: int, ctx: Optional[Context]) -> None: ...  # noqa: UP045
def in_a_union_of_annotated(ctx: Annotated[Context | None, "the job"]) -> None: ...
def with_a_default(a: int, ctx: Context = None) -> None: ...  # type: ignore[assignment]
def two(ctx: Context, a: int, other: Context) -> None: ...
def a_list(contexts: list[Context]) -> None: ...
def a_mapping(contexts: dict[str, Context]) -> None: ...
def a_subclass(ctx: Mine) -> None: ...
def behind_an_unreadable_one(a: NoSuchType, ctx: Context | None) -> None: ...  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize(
    "function",
    [
        two_depends,
        twice,
        without_a_function,
        without_anything,
        in_a_list,
        in_a_union,
        in_a_circle,
        of_a_worker,
        optional_in_a_provider,
        optional,
        old_optional,
        in_a_union_of_annotated,
        with_a_default,
        two,
        a_list,
        a_mapping,
        a_subclass,
        behind_an_unreadable_one,
    ],
    ids=lambda f: f.__name__,
)
def test_what_could_not_be_injected_is_refused_at_definition(
    app: Headway, function: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigError):
        app.task(function)
    with pytest.raises(ConfigError):
        app.flow("flow").step(function)


def test_the_refusal_says_what_to_write(app: Headway) -> None:
    with pytest.raises(ConfigError, match=r"parameter ctx of optional .*; write `ctx: Context`$"):
        app.task(optional)


def contexts_first(contexts: list[Context], items: list[int]) -> None: ...
def contexts_last(items: list[int], contexts: list[Context]) -> None: ...
def with_a_dependency(
    items: list[int], db: Annotated[str, Depends(get_db)], contexts: list[Context]
) -> None: ...
@pytest.mark.parametrize(
    "function", [contexts_first, contexts_last, with_a_dependency], ids=lambda f: f.__name__
)
def test_a_batch_takes_its_contexts_in_any_position(
    app: Headway, function: Callable[..., Any]
) -> None:
    task: Any = app.task(batch=Batch(10))(function)
    task.definition.check()
    assert task.definition.context_parameter == "contexts"
    assert bytes(task.call(3).job.input) == b'{"items":3}'


def one_context(ctx: Context, items: list[int]) -> None: ...
def optional_contexts(items: list[int], contexts: list[Context] | None = None) -> None: ...
def optional_context(items: list[int], contexts: list[Context | None]) -> None: ...
def of_one_job(items: list[int], user: Annotated[str, Depends(get_user)]) -> None: ...


@pytest.mark.parametrize(
    "function",
    [one_context, optional_contexts, optional_context, of_one_job],
    ids=lambda f: f.__name__,
)
def test_a_batch_is_not_given_the_context_of_one_job(
    app: Headway, function: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigError, match=r"list\[Context\]"):
        app.task(batch=Batch(10))(function)
