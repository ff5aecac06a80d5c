"""The definition that a function leads to when it becomes a task."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import pytest

from headway import Context, Retry
from headway.core.definition import Definition
from headway.errors import ConfigError, InvalidInput


def define(function: Callable[..., Any], **options: Any) -> Definition:
    given: dict[str, Any] = {
        "name": function.__name__,
        "function": function,
        "queue": "default",
        "priority": 0,
        "retry": Retry(),
        "timeout": None,
        "ttl": None,
        "executor": "thread",
        "slots": None,
    }
    return Definition(**(given | options))


def stored(function: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The arguments of a call as the worker gets them back."""
    made = define(function)
    return made.parameters.decode(encode(made, *args, **kwargs))


def encode(made: Definition, *args: Any, **kwargs: Any) -> bytes:
    return made.encode(made.bind(args, kwargs))


def get_db() -> str:
    return "db"


def test_arguments_by_place_and_by_name_are_stored_by_name() -> None:
    def task(a: int, b: str, *, c: float) -> None: ...

    assert (
        stored(task, 1, "x", c=2.0) == stored(task, b="x", a=1, c=2) == {"a": 1, "b": "x", "c": 2}
    )


def test_defaults_are_part_of_the_stored_call() -> None:
    def task(a: int = 1, b: list[int] = [2], *, c: str | None = None) -> None: ...  # noqa: B006

    assert stored(task) == {"a": 1, "b": [2], "c": None}
    assert encode(define(task)) == b'{"a":1,"b":[2],"c":null}'


def test_parameters_without_annotations_take_anything_storable() -> None:
    def task(a, b=None) -> None: ...

    assert stored(task, {"x": [1]}) == {"a": {"x": [1]}, "b": None}


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
        ((1,), {"c": 1}, "unexpected keyword argument 'c'"),
        (("one",), {}, r"Expected `int`, got `str` - at `\$\.a`"),
        ((None,), {}, "Expected `int`, got `null`"),
    ],
)
def test_a_call_that_does_not_fit_says_why_and_names_the_task(args, kwargs, why: str) -> None:
    def add(a: int, b: int = 2) -> None: ...

    with pytest.raises(InvalidInput, match=f"add: .*{why}"):
        encode(define(add), *args, **kwargs)


@pytest.mark.parametrize(
    "function",
    [
        lambda *args: None,
        lambda **kwargs: None,
        lambda a, /: None,
        lambda a, *rest, b: None,
        lambda conn: None,
        lambda self, a: None,
    ],
)
def test_parameters_without_a_name_of_their_own_and_reserved_names_are_refused(function) -> None:
    with pytest.raises(ConfigError):
        define(function, name="task")


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"queue": " "},
        {"priority": 40_000},
        {"timeout": "soon"},
        {"ttl": -1},
        {"slots": 0},
        {"executor": "process"},  # defined inside a function: a process could not import it
    ],
)
def test_options_that_cannot_be_right_are_refused_when_the_task_is_defined(options) -> None:
    def task() -> None: ...

    with pytest.raises(ConfigError):
        define(task, **options)


def test_a_parameter_whose_type_cannot_be_stored_is_refused_when_the_worker_starts() -> None:
    def task(a: "NoSuchType") -> None: ...  # noqa: F821

    made = define(task)
    with pytest.raises(ConfigError, match=r"the annotation of a in .*task cannot be read"):
        made.check()


def test_the_types_of_an_enclosing_function_may_be_used() -> None:
    class Local(msgspec.Struct):
        x: int

    def task(a: Local) -> Local: ...  # type: ignore[empty-body]

    assert stored(task, Local(1)) == {"a": Local(1)}
    assert define(task).result.decode(b'{"x":2}') == Local(2)


@dataclass
class Receipt:
    id: UUID


def test_a_result_is_read_back_as_what_the_function_says_it_returns() -> None:
    def task() -> Receipt: ...  # type: ignore[empty-body]

    text = '{"id":"01890000-0000-7000-8000-000000000000"}'
    assert define(task).result.decode(text) == Receipt(
        UUID(int=0x0189000000007000_8000000000000000)
    )


def test_a_function_that_does_not_say_what_it_returns_has_plain_results() -> None:
    def silent(): ...

    assert define(silent).result.decode('{"a":1}') == {"a": 1}


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def test_a_decorated_function_keeps_its_parameters() -> None:
    @logged
    def task(ctx: Context, a: Receipt, b: int = 1) -> None: ...

    receipt = Receipt(UUID(int=1))
    assert define(task).context_parameter == "ctx"
    assert stored(task, receipt) == {"a": receipt, "b": 1}


def test_a_function_may_use_what_the_one_around_it_assigns_further_down() -> None:
    def task(n: int) -> str:
        return later

    assert encode(define(task), 1) == b'{"n":1}'
    later = "later"
    assert task(1) == later
