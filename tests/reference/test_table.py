"""README.md lists every behaviour and every defect once, and every test of one."""

from __future__ import annotations

import ast
import re
from collections import Counter
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
_LATER = "later: schedules"
_EXCUSES = ("does not apply: ", "no counterpart: ")
_CARRIES_AN_ID = re.compile(r"test_(?P<id>[uprq]d?\d+)_")


def _rows() -> list[tuple[str, str]]:
    lines = (_HERE / "README.md").read_text().splitlines()
    return [(row["id"], row["covered"]) for line in lines if (row := _ROW.match(line))]


def _tests() -> dict[str, str]:
    """Every test here that carries an id, with the id."""
    return {
        node.name: match["id"].upper()
        for file in _HERE.glob("test_*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (match := _CARRIES_AN_ID.match(node.name))
    }


def test_every_behaviour_is_in_the_table_once() -> None:
    assert Counter(name for name, _ in _rows()) == Counter(_IDS)


def test_every_behaviour_is_tested_or_says_why_not() -> None:
    for name, covered in _rows():
        tested = covered.startswith(f"`test_{name.lower()}_")
        excused = covered == _LATER or covered.startswith(_EXCUSES)
        assert tested or excused, f"{name}: {covered}"


def test_the_table_names_the_tests_that_there_are() -> None:
    named = {test: name for name, covered in _rows() for test in re.findall(r"`(\w+)`", covered)}
    assert named == _tests()


def test_each_test_says_what_the_reference_does_and_what_headway_does() -> None:
    for file in _HERE.glob("test_*.py"):
        for node in ast.parse(file.read_text()).body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if named and _CARRIES_AN_ID.match(node.name):
                words = ast.get_docstring(node) or ""
                assert re.match(
                    r"(Underway|pg_task|Roadster|pgmq): .*Headway:\s", words, re.DOTALL
                ), node.name
