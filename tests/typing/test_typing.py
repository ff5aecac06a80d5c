"""Calls are checked as users write them: by pyright and by mypy, both strict."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

_HERE = Path(__file__).parent
_FILES = tuple(sorted(_HERE.glob("must_*.py")))
_MARKER = re.compile(r"# expect: error(?: (pyright|mypy))?$")
_MYPY_ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<words>.*)$")


class Place(NamedTuple):
    file: str
    line: int


def _expected(checker: str) -> set[Place]:
    return {
        Place(file.name, number)
        for file in _FILES
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if (marker := _MARKER.search(line)) and marker[1] in (None, checker)
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files where no configuration but their own reaches them, as in a user's project."""
    for file in _FILES:
        shutil.copy(file, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    return tmp_path


def _run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True
    )


def _pyright(project: Path) -> dict[Place, str]:
    run = _run(project, "pyright", "--outputjson", "--pythonpath", sys.executable)
    report = json.loads(run.stdout)
    assert report["summary"]["filesAnalyzed"] == len(_FILES), run.stdout + run.stderr
    return {
        Place(Path(found["file"]).name, found["range"]["start"]["line"] + 1): found["message"]
        for found in report["generalDiagnostics"]
        if found["severity"] == "error"
    }


def _mypy(project: Path) -> dict[Place, str]:
    run = _run(project, "mypy", "--strict", "--no-pretty", *(file.name for file in _FILES))
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = [match for line in run.stdout.splitlines() if (match := _MYPY_ERROR.match(line))]
    assert found, run.stdout + run.stderr
    return {Place(Path(m["file"]).name, int(m["line"])): m["words"] for m in found}


_CHECKERS = {"pyright": _pyright, "mypy": _mypy}


@pytest.mark.slow
@pytest.mark.parametrize("checker", _CHECKERS)
def test_right_calls_pass_and_wrong_calls_are_refused(checker: str, project: Path) -> None:
    found = _CHECKERS[checker](project)
    expected = _expected(checker)
    refused = {place: words for place, words in found.items() if place not in expected}
    assert not refused, f"{checker} refuses what must pass"
    assert not expected - found.keys(), f"{checker} lets pass what must be refused"


def test_the_markers_are_where_something_must_be_refused() -> None:
    """No file can lose its meaning: one that must pass has no marker, one that must fail has many."""
    for checker in _CHECKERS:
        counts = Counter(place.file for place in _expected(checker))
        assert set(counts) == {file.name for file in _FILES if "fail" in file.name}
        assert min(counts.values()) >= 40
