"""README.md lists every behaviour and every defect once, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_IDS = [
    *(f"U{number}" for number in range(1, 78)),
    *(f"P{number}" for number in (*range(1, 71), *range(136, 139))),
    *(f"R{number}" for number in range(1, 24)),
    *(f"Q{number}" for number in range(1, 50)),
    *(f"UD{number}" for number in range(1, 13)),
    *(f"PD{number}" for number in range(1, 9)),
    *(f"RD{number}" for number in range(1, 9)),
    *(f"QD{number}" for number in range(1, 7)),
]
_ROW = re.compile(r"^\| (?P<id>[UPRQ]D?\d+) \| (?P<covered>[^|]+) \| (?:(?P<note>[^|]+) )?\|$")
_NAMED = re.compile(r"`(?P<file>[\w/]+\.py)::(?P<test>test_\w+)`")
_EXCUSES = ("does not apply: ", "no counterpart: ")
_CARRIES_AN_ID = re.compile(r"test_[uprq]d?\d+_")


def _rows() -> list[tuple[str, str]]:
    lines = (_HERE / "README.md").read_text().splitlines()
    return [(row["id"], row["covered"]) for line in lines if (row := _ROW.match(line))]


def _named() -> set[tuple[str, str]]:
    """Every test in the table, with its file."""
    return {match.group("file", "test") for _, cell in _rows() for match in _NAMED.finditer(cell)}


@cache
def _tests(file: Path) -> dict[str, str]:
    """The tests of a file by name, with their docstrings."""
    nodes = ast.parse(file.read_text()).body if file.exists() else []
    functions = (n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name: ast.get_docstring(node) or "" for node in functions}


def test_every_behaviour_is_in_the_table_once() -> None:
    assert Counter(name for name, _ in _rows()) == Counter(_IDS)


def test_every_behaviour_is_tested_or_says_why_not() -> None:
    for name, covered in _rows():
        assert _NAMED.match(covered) or covered.startswith(_EXCUSES), f"{name}: {covered}"


def test_every_test_in_the_table_exists() -> None:
    missing = {(file, test) for file, test in _named() if test not in _tests(_HERE.parent / file)}
    assert missing == set(), "a test was renamed or moved: correct tests/reference/README.md"


def test_every_test_of_this_folder_is_in_the_table_and_compares_both_systems() -> None:
    for file in _HERE.glob("test_*.py"):
        for test, words in _tests(file).items():
            if _CARRIES_AN_ID.match(test):
                assert (f"reference/{file.name}", test) in _named()
                assert re.match(
                    r"(Underway|pg_task|Roadster|pgmq): .*Headway:\s", words, re.DOTALL
                ), test
