"""The house: sizes of files, errors and their tree, docstrings, and the examples in them."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import headway
from headway import errors
from headway.queues import Queues
from tests.architecture.source import PACKAGE, ROOT, modules

_LONGEST = 400


def _files() -> list[Path]:
    tests = (ROOT / "tests").rglob("*.py")
    return [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql"), *tests]


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in _files()}
    long = {path.name: length for path, length in lengths.items() if length > _LONGEST}
    assert long == {}


@pytest.mark.parametrize("name", modules())
def test_every_module_says_what_it_is_for(name: str) -> None:
    said = ast.get_docstring(modules()[name].tree)
    assert said, f"{name} has no docstring"
    assert len(said.splitlines()[0]) <= 106


# -- errors ---------------------------------------------------------------------------------------


def _classes() -> dict[str, type[Exception]]:
    found = vars(errors).values()
    return {c.__name__: c for c in found if inspect.isclass(c) and c.__module__ == errors.__name__}


def _drawn() -> dict[str, str | None]:
    """Each error in the docstring's tree with the one above it."""
    above: list[tuple[int, str]] = []
    drawn: dict[str, str | None] = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"[\s│]*(?:[├└]── )?(\w+|\(raised)", line)
        if not found or not re.match(r"\s{4}", line):
            continue
        depth, name = found.start(1), found[1]
        above = [(d, n) for d, n in above if d < depth]
        parents = [n for _, n in above if n != "(raised"]
        if name != "(raised":
            drawn[name] = parents[-1] if parents else None
        above.append((depth, name))
    return drawn


def test_the_tree_of_errors_is_the_tree_of_classes() -> None:
    ours = _classes()
    assert _drawn() == {
        name: next((b.__name__ for b in kind.__bases__ if b.__name__ in ours), None)
        for name, kind in ours.items()
    }


@pytest.mark.parametrize("name", sorted(_classes()))
def test_every_error_is_raised_or_caught_somewhere(name: str) -> None:
    using = [
        module.place
        for module in modules().values()
        if module.place not in ("errors.py", "__init__.py")
        and any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(module.tree))
    ]
    assert using


@pytest.mark.parametrize("name", sorted(_classes()))
def test_every_error_says_what_it_means(name: str) -> None:
    assert _classes()[name].__doc__


# -- what users see -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(headway.__all__) - {"__version__"}))
def test_every_public_name_says_what_it_is(name: str) -> None:
    thing: Any = getattr(headway, name)
    said = inspect.getdoc(thing)
    assert said
    assert not said.startswith(f"{name}("), "a dataclass says nothing by listing its fields"


@pytest.mark.parametrize(
    "kind",
    [
        headway.Headway,
        headway.Task,
        headway.Flow,
        headway.Step,
        headway.Chain,
        headway.Job,
        headway.Context,
        Queues,
    ],
    ids=lambda k: k.__name__,
)
def test_every_public_method_says_what_it_does(kind: type) -> None:
    silent = [
        name
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property))
        and not inspect.getdoc(member)
    ]
    # A task's name needs no words.
    assert set(silent) <= {"name"}


def test_all_is_in_order_and_nothing_else_is_public() -> None:
    assert sorted(headway.__all__) == headway.__all__
    for name in headway.__all__:
        assert hasattr(headway, name)


def _with_examples() -> list[str]:
    return [name for name, module in modules().items() if ">>> " in module.path.read_text("utf-8")]


@pytest.mark.parametrize("name", _with_examples())
def test_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    names = {"Fatal": errors.Fatal, "Snooze": errors.Snooze, **vars(module)}
    result = doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_there_are_examples_to_run() -> None:
    """Those that need a database are marked to be skipped; these do not."""
    for name in ("headway.core.duration", "headway.core.retry", "headway.errors", "headway.app"):
        assert doctest.testmod(importlib.import_module(name)).attempted > 0, name
