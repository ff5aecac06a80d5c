"""Reading functions: parameters, what is injected, annotations one by one."""

import functools
from typing import Annotated, Any

import pytest

from headway import Context
from headway.core.signature import annotation, notes, parameters
from headway.errors import ConfigError
from tests.core.test_definition import get_db, logged


class Provider:
    def __init__(self, ctx: Context) -> None: ...
    def __call__(self, ctx: Context) -> None: ...
    def method(self, ctx: Context) -> None: ...


def test_annotations_are_found_on_whatever_can_be_called() -> None:
    made = Provider.__new__(Provider)
    callables = [Provider, made, made.method, functools.partial(made.method), logged(made.method)]
    assert [annotation(each, "ctx") for each in callables] == [Context] * 5


def test_what_is_not_annotated_may_be_anything() -> None:
    def task(a) -> None: ...

    assert annotation(task, "a") is Any
    assert annotation(dict, "x") is Any


def test_one_annotation_is_read_without_the_others() -> None:
    def task(a: int, b: "NoSuchType") -> None: ...  # noqa: F821

    assert annotation(task, "a") is int
    with pytest.raises(ConfigError, match=r"the annotation of b in .*task cannot be read"):
        annotation(task, "b")


def test_notes_are_read_without_the_type_that_they_are_about() -> None:
    def task(a: "Annotated[NoSuchType, 1, 'two']", b: "Annotated[int, NoSuchNote]") -> None: ...  # noqa: F821

    assert notes(task, "a") == (1, "two")
    assert notes(task, "return") == notes(dict, "x") == ()
    with pytest.raises(ConfigError, match="NoSuchNote"):
        notes(task, "b")


def test_a_builtin_that_does_not_tell_its_parameters_has_none() -> None:
    assert dict(parameters(dict)) == {}
    assert list(parameters(get_db)) == []
    assert list(parameters(logged)) == ["function"]
