"""Prose: docstrings, comments, messages and documents, and the phrases that we do not use."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

_PHRASES = re.compile(
    r"(?<!there )(?<!There )\bis no (?!longer|more|counterpart)|(?<!there )(?<!There )\bis none\b"
    r"|\b[Ww]hoever\b|\bof late\b|\bso many\b|\bbeside\b"
    r"|\bhand(?:s|ed)? on\b|\bpass(?:es|ed)? by\b(?! (?:it|them)sel)|\bcomes? to nothing\b"
)
_OPENING = re.compile(r"(?:What|Who|Whoever)\b")
_QUOTES = re.compile(r"[a-zA-Z]{0,2}(?:\"\"\"|'''|\"|')\s*")
_SQL_PROSE = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_STRINGS = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))


def faults(path: Path) -> list[str]:
    """Return the phrases in a file that we do not use, each with its line."""
    read = {".py": _python, ".sql": _sql, ".md": _document}[path.suffix]
    pieces = read(path)
    return [f"{line}: {found}" for line, text, docs in pieces for found in _faults(text, docs)]


def _faults(text: str, is_documentation: bool) -> Iterator[str]:
    yield from (found[0] for found in _PHRASES.finditer(text))
    if is_documentation and (opening := _OPENING.match(text)):
        yield f"begins with {opening[0]}"


def _python(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the line, the text, and whether it is a docstring or a comment."""
    begins_line = True
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type in _STRINGS:
            yield token.start[0], _QUOTES.sub("", token.string, count=1), begins_line
        elif token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: "), True
        begins_line = token.type in (
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.NL,
            tokenize.DEDENT,
        )


def _sql(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the line and the text of each comment and literal."""
    text = path.read_text("utf-8")
    for found in _SQL_PROSE.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[0].lstrip("-' *"), True


def _document(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the lines outside code, and the comments inside."""
    is_code = False
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif is_code and "#" in line:
            yield number, line.partition("#")[2].strip(), True
        elif not is_code:
            yield number, line, False
