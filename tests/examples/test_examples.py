"""Every example runs to its end.

An example is a file `examples/NAME.py`, which ends by itself, or `examples/NAME/main.py`, which does
when it is given `--bounded`. They run in an empty directory, without a database given: on an embedded
server of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.markdown import ROOT

_EXAMPLES = [*sorted(ROOT.glob("examples/*.py")), *sorted(ROOT.glob("examples/*/main.py"))]
_DEADLINE = 150.0


@pytest.mark.slow
@pytest.mark.embedded_only
@pytest.mark.parametrize("file", _EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_example_runs_to_its_end(file: Path, tmp_path: Path) -> None:
    given = ("HEADWAY_DATABASE_URL", "DATABASE_URL")
    environment = {key: value for key, value in os.environ.items() if key not in given}
    done = subprocess.run(
        [sys.executable, str(file), *(["--bounded"] if file.name == "main.py" else [])],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_examples() -> None:
    assert _EXAMPLES
