"""A directory of a test's own as the working directory, and an environment without settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.settings.layers import load


class Project:
    """Files below the working directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def value(self, key: str) -> object:
        return load()[key].value

    def origin(self, key: str) -> str:
        return str(load()[key].origin)

    def refusal(self, work: Callable[[], object] = load) -> str:
        """Return the error for an invalid configuration."""
        with pytest.raises(ConfigError) as raised:
            work()
        return str(raised.value)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in os.environ:
        # Variables that begin so are the tests' own.
        if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return Project(directory)
