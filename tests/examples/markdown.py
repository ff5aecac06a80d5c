"""Finding the Python in a Markdown file."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]

_OPENS = re.compile(r"^(?P<indent> *)```(?:python|py)\b")
_NOT_RUN = re.compile(r"^ *<!-- not run: (?P<reason>\S.*) -->$")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is where its code begins."""

    file: Path
    line: int
    code: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"

    def compiled(self) -> CodeType:
        """With top-level `await` allowed, and tracebacks that point into the Markdown."""
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
        tree = compile(self.code, str(self.file), "exec", flags)
        ast.increment_lineno(tree, self.line - 1)
        return compile(tree, str(self.file), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def documents() -> list[Path]:
    """Every document with Python in it."""
    files = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
    return [file for file in files if blocks(file)]


def blocks(file: Path) -> list[Block]:
    """The Python blocks of a file, in order."""
    found: list[Block] = []
    lines = file.read_text("utf-8").splitlines()
    number = 0
    while number < len(lines):
        opens = _OPENS.match(lines[number])
        number += 1
        if opens is None:
            continue
        first, indent = number, len(opens["indent"])
        while lines[number].strip() != "```":
            number += 1
        before = _NOT_RUN.match(lines[first - 2]) if first > 1 else None
        code = "\n".join(line[indent:] for line in lines[first:number])
        found.append(Block(file, first + 1, code, before["reason"] if before else None))
    return found
