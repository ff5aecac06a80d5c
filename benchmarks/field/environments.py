"""An environment for each system, made once in `.cache/field` and used again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.field.systems import System

_CACHE = Path(".cache/field").absolute()
_ADAPTERS = Path(__file__).parent / "adapters"


class NotHere(Exception):
    """This system cannot be run on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Environment:
    """How programs of a system are called, and the versions of what it is made of."""

    command: tuple[str, ...]
    versions: dict[str, str]


def prepare(system: System) -> Environment:
    """Return the environment of a system. Raise NotHere if it cannot be made here."""
    if system.node:
        return _node(system)
    if not system.packages:
        from headway.version import __version__

        return Environment(
            (sys.executable, str(_ADAPTERS / system.program)), {"headway": __version__}
        )
    return _python(system)


def _python(system: System) -> Environment:
    folder = _CACHE / system.name
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _call(sys.executable, "-m", "venv", str(folder))
        _call(str(python), "-m", "pip", "--quiet", "install", *system.packages)
        (folder / ".complete").touch()
    listed = _call(str(python), "-m", "pip", "list", "--format=freeze").splitlines()
    versions = dict(line.split("==", 1) for line in listed if "==" in line)
    names = {package.partition("[")[0].lower() for package in system.packages}
    kept = {name: version for name, version in versions.items() if name.lower() in names}
    return Environment((str(python), str(_ADAPTERS / system.program)), kept)


def _node(system: System) -> Environment:
    if (node := shutil.which("node")) is None or (npm := shutil.which("npm")) is None:
        raise NotHere("node and npm are not installed")
    folder = _CACHE / system.name
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _call(npm, "install", "--silent", "--prefix", str(folder), *system.packages)
        (folder / ".complete").touch()
    for program in _ADAPTERS.glob("*.mjs"):  # modules are found from where the program is
        shutil.copy(program, folder)
    versions = {
        package: _call(
            node, "-p", f"require('{folder}/node_modules/{package}/package.json').version"
        )
        for package in system.packages
    }
    versions["node"] = _call(node, "--version")
    return Environment((node, str(folder / system.program)), versions)


def _call(*command: str) -> str:
    done = subprocess.run(command, text=True, capture_output=True, env=os.environ, check=False)
    if done.returncode:
        raise NotHere(f"`{' '.join(command[:6])}` failed: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()
