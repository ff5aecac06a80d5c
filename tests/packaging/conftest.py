"""Builds what is released, once, and an empty environment with nothing in it but that."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path


class Environment:
    """A virtual environment with the wheel and the dependencies it declares, and not one more."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the environment, away from the repository; fails if it does."""
        hidden = ("PYTHONPATH", "PYTHONHOME", "HEADWAY_DATABASE_URL", "DATABASE_URL")
        inherited = {key: value for key, value in os.environ.items() if key not in hidden}
        done = subprocess.run(
            [str(self.bin / command[0]), *map(str, command[1:])],
            cwd=self.root,
            env=inherited | variables,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture(scope="session")
def project() -> dict[str, Any]:
    """The `project` table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist, and the wheel made from it: what is missing in the one is missing in the other."""
    out = tmp_path_factory.mktemp("dist")
    _check("build", "--no-isolation", "--outdir", str(out), str(ROOT))
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="session")
def environment(
    built: Built, project: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    root = tmp_path_factory.mktemp("environment")
    _check("venv", "--without-pip", str(root))
    python = str(root / "bin" / "python")
    _check("pip", "--python", python, "install", "--no-deps", "--no-index", str(built.wheel))
    # The dependencies are linked from where the tests run, so that no registry is needed.
    (site,) = root.glob("lib/python*/site-packages")
    for name, place in _files_of(_closure(project["dependencies"])).items():
        (site / name).symlink_to(place)
    return Environment(root)


def _check(module: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _closure(requirements: Iterable[str]) -> dict[str, metadata.Distribution]:
    """Every distribution that these need, themselves included."""
    found: dict[str, metadata.Distribution] = {}
    open_ = [Requirement(text) for text in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_:
        wanted = open_.pop()
        extras = frozenset(wanted.extras) | {""}
        if (wanted.name, extras) in seen:
            continue
        seen.add((wanted.name, extras))
        distribution = found[wanted.name] = metadata.distribution(wanted.name)
        for text in distribution.requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras):
                open_.append(needed)
    return found


def _files_of(distributions: dict[str, metadata.Distribution]) -> dict[str, Path]:
    """The files and folders at the top of site-packages that belong to these distributions."""
    return {
        file.parts[0]: Path(str(distribution.locate_file(file.parts[0])))
        for distribution in distributions.values()
        for file in distribution.files or ()
        if file.parts[0] not in ("..", "__pycache__")
    }
