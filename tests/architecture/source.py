"""The source of the package, parsed once, for the tests that look at it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import headway
from headway.store.statement import source

PACKAGE = Path(headway.__file__).parent
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    tree: ast.Module

    @property
    def place(self) -> str:
        """Its file, as one would name it: `store/statements/jobs.py`."""
        return self.path.relative_to(PACKAGE).as_posix()


@cache
def modules() -> dict[str, Module]:
    """Every module of the package by its dotted name."""
    found: dict[str, Module] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, ast.parse(path.read_text("utf-8")))
    return found


def imports(module: Module) -> set[str]:
    """Every module that one imports anywhere in it: ours by the name of their file, others as named."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.place} has a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules() else str(node.module))
    return found


def roots(module: Module) -> set[str]:
    """The top names of what a module imports: `psycopg` for `psycopg.rows`."""
    return {name.partition(".")[0] for name in imports(module)}


def strings(module: Module) -> Iterator[tuple[int, str]]:
    """Return every string of a module that is not a docstring, with its line."""
    documentation = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in documentation:
            yield node.lineno, text


def sql_files(*folders: str) -> dict[str, str]:
    """The SQL of these folders by `folder/name`, with its parts inlined and without comments."""
    names = [
        f"{folder}/{path.stem}"
        for folder in folders
        for path in sorted((PACKAGE / "store" / "sql" / folder).glob("*.sql"))
    ]
    return {name: re.sub(r"--.*", "", source(name)) for name in names}
