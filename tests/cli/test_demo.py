"""The demonstration that `./run` shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import eventually_sync

_MAIN = Path(__file__).parents[2] / "examples" / "demo" / "main.py"
_NOWHERE = {"DATABASE_URL": "postgresql://localhost:1/yours"}
"""The demonstration must not go there."""


@pytest.mark.slow
def test_the_bounded_demonstration_ends_by_itself_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, _MAIN, "--bounded"],
        cwd=tmp_path,
        env=os.environ | _NOWHERE,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cells = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
    table = {row[1]: row[2] for row in cells if len(row) == 4}
    assert table["enqueued"] == "440"
    assert table["succeeded"] == "438"
    assert table["orders of three steps, paid once each"] == "40 of 40"
    assert table["failed for good, as they must"] == "2"
    assert table["lost"] == "0"
    assert int(table["retried on the way"]) >= 15


@pytest.mark.slow
def test_the_unbounded_demonstration_runs_until_ctrl_c_and_stops_cleanly(tmp_path: Path) -> None:
    out = tmp_path / "out"
    log = tmp_path / ".headway" / "demo-worker.log"
    with out.open("wb") as file:
        demo = subprocess.Popen(
            [sys.executable, _MAIN],
            cwd=tmp_path,
            env=os.environ | _NOWHERE,
            stdout=file,
            stderr=file,
        )
    try:
        eventually_sync(lambda: log.exists() and "serving" in log.read_text())
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0, out.read_text()
    finally:
        demo.kill()
        demo.wait()
    shown = out.read_text()
    assert "DSN: postgresql://" in shown
    assert "A dashboard is not part of this version yet." in shown
    assert "headway health" in shown
    assert "stopped; the worker's exit code is 0" in shown
