"""The tests in docs/testing.md pass, in a project of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.markdown import ROOT, blocks


@pytest.mark.slow
def test_every_test_of_the_guide_passes(tmp_path: Path, dsn: str) -> None:
    parts = [block for block in blocks(ROOT / "docs/testing.md") if block.not_run is None]
    code = "\n\n".join(block.code for block in parts)
    (tmp_path / "test_guide.py").write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={"HEADWAY_TEST_DSN": dsn, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    outcome = done.stdout.strip().splitlines()[-1].partition(" in ")[0]
    assert outcome == f"{code.count('def test_')} passed", done.stdout
