"""The house: sizes of files, errors and their tree, docstrings, and the examples in them."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, get_origin

import pytest

import headway
from headway import errors
from tests.architecture import prose
from tests.architecture.source import PACKAGE, ROOT, modules

_LONGEST = 400


def _files() -> list[Path]:
    tests = (ROOT / "tests").rglob("*.py")
    return [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql"), *tests]


def test_no_file_is_too_long() -> None:
    """Lines that scripts/sync generates do not count: nobody reads or edits them."""
    generated = re.compile(
        r"^ *# -- sync: .*?^ *# -- end of the generated", re.MULTILINE | re.DOTALL
    )
    texts = {path: generated.sub("", path.read_text("utf-8")) for path in _files()}
    lengths = {path: len(text.splitlines()) for path, text in texts.items()}
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
    if get_origin(thing) is not None:
        return  # a type alias
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
        headway.Job,
        headway.Context,
        headway.Jobs,
        headway.Queues,
        headway.Workers,
        headway.Controls,
        headway.Schedules,
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


# -- names and prose ------------------------------------------------------------------------------

_UNUSED_NAMES = frozenset(
    """
    util utils helper helpers common base manager misc
    sight lookout ear books pulse notes census turns duties duty
    handover hand_over handing_on giving_way exchange wake look looking ring lent borrowed clocks patience
    handle define calls declared returned arrivals track block replies
    """.split()  # noqa: SIM905
)


def test_no_module_has_a_name_that_we_do_not_use() -> None:
    """A test may be named for a table (`census`) or a kind of function (`calls`)."""
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("*.py")}
    names = {name.rpartition(".")[2].strip("_") for name in modules()}
    names |= tests - {"base", "calls", "declared"}
    assert sorted(_UNUSED_NAMES & names) == []


def test_no_two_classes_share_a_name() -> None:
    found: dict[str, list[str]] = {}
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module.place)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


_WITHOUT_PROSE = {"prose.py"}
"""It spells the phrases."""


def _written() -> list[Path]:
    sql = [path for path in PACKAGE.rglob("*.sql") if "migrations" not in path.parts]
    folders = (PACKAGE, *(ROOT / name for name in ("tests", "benchmarks", "examples", "scripts")))
    python = [path for folder in folders for path in folder.rglob("*.py")]
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tests" / "README.md"]
    return sorted(path for path in [*sql, *python, *documents] if path.name not in _WITHOUT_PROSE)


def test_prose_has_none_of_the_phrases_that_we_do_not_use() -> None:
    found = {path.relative_to(ROOT).as_posix(): prose.faults(path) for path in _written()}
    assert {place: faults for place, faults in found.items() if faults} == {}
