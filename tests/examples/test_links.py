"""Links in the documents lead somewhere, and the files that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.markdown import ROOT

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?<![\w/.])((?:\w+/)*\w+\.(?:py|sql))\b")
_FOLDER = re.compile(r"`((?:\w+/)+)`")
_PLACEHOLDERS = {"store/sql/migrations/NNNN_what.sql"}
_DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def _anchors(file: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub names them."""
    headings = _HEADING.findall(_FENCE.sub("", file.read_text()))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("file", _DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading(file: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", file.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions.md"])
def test_files_and_folders_that_are_named_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    known = [f"/{path.relative_to(ROOT)}" for path in _tracked()]
    missing = {
        path
        for path in {*_FILE.findall(text), *_FOLDER.findall(text)} - _PLACEHOLDERS
        if not any(f"{known_path}/".find(f"/{path.rstrip('/')}/") >= 0 for known_path in known)
    }
    assert not missing


def _tracked() -> list[Path]:
    folders = ("src", "tests", "benchmarks", "scripts", "examples", "docs")
    return [path for folder in folders for path in (ROOT / folder).rglob("*")]
