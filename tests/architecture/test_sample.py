"""`tests/sample.txt`, the tests of `./test --fast`, names something of every folder, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

_TESTS = Path(__file__).parents[1]
_ROOT = _TESTS.parent


def _sample() -> list[str]:
    lines = (_TESTS / "sample.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _defines(file: Path, test: str) -> bool:
    nodes = ast.walk(ast.parse(file.read_text()))
    functions = (n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(node.name == test for node in functions)


def test_every_folder_is_in_the_sample() -> None:
    folders = {file.parent.name for file in _TESTS.glob("*/test_*.py")}
    assert {Path(line).parts[1] for line in _sample()} == folders


def test_everything_in_the_sample_exists() -> None:
    for line in _sample():
        name, _, test = line.partition("::")
        place = _ROOT / name
        assert place.exists(), line
        assert not test or _defines(place, test), line


def test_nothing_is_in_the_sample_twice() -> None:
    assert len(set(_sample())) == len(_sample())
