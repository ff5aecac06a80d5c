from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click.testing
import pytest

from headway.cli.root import root
from tests.support import DEADLINE, eventually_sync

_FILES = {"README.md", "app.py", "produce.py"}


def _init(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(root, ["init", *words])


def test_a_project_is_written_and_said_how_to_run(tmp_path: Path) -> None:
    place = tmp_path / "new" / "project"
    result = _init(str(place))
    assert result.exit_code == 0
    assert {path.name for path in place.iterdir()} == _FILES
    assert f"cd {place} && headway worker app:hw" in result.stdout


def test_the_default_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "next: headway worker app:hw" in _init().stdout
    assert {path.name for path in tmp_path.iterdir()} == _FILES


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine")
    result = _init(str(tmp_path))
    assert result.exit_code == 1
    assert "app.py already exists" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]
    assert (tmp_path / "app.py").read_text() == "mine"


@pytest.mark.slow
def test_the_project_works_as_its_readme_says(tmp_path: Path) -> None:
    _init(str(tmp_path))
    env = {k: v for k, v in os.environ.items() if k not in ("HEADWAY_DATABASE_URL", "DATABASE_URL")}
    log = tmp_path / "log"
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [sys.executable, "-m", "headway", "worker", "app:hw"],
            cwd=tmp_path,
            env=env,
            stdout=out,
            stderr=out,
        )
    try:
        eventually_sync(lambda: "serving" in log.read_text())
        done = subprocess.run(
            [sys.executable, "produce.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stderr
        results = [line.split(" ", 1)[1] for line in done.stdout.splitlines()]
        assert results == [
            *(f"sent to user{n}@example.com" for n in range(1, 6)),
            "6",
            "1",
            str(sum(i * i for i in range(100_000))),
            "sent to later@example.com",
        ]
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE) == 0
    finally:
        worker.kill()
        worker.wait()
