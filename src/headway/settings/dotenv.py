r"""A .env file: lines of NAME=value.

    # a comment
    export HEADWAY_ENV=production          # `export` and a comment after the value are left out
    NAME='taken literally'
    NAME="with \n and \" in it, over
    several lines, and with ${OTHER} or ${OTHER:-a default}"

The file may hold variables of other programs. A line that cannot be parsed is skipped; it is an error
only if it sets a variable of Headway's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(
    r"""^[^\S\n]*(?:export[^\S\n]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)[^\S\n]*=[^\S\n]*
        (?: (?: '(?P<single>[^']*)'              # literal
              | "(?P<double>(?:\\.|[^"\\])*)"    # with escapes
            ) [^\S\n]*(?:(?<=\s)\#[^\n]*)?
          | (?P<bare>(?!['"])[^\n]*)             # perhaps with a comment
        )$""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_NAME = re.compile(r"[^\S\n]*(?:export[^\S\n]+)?([A-Za-z_][A-Za-z0-9_.]*)[^\S\n]*=")
_COMMENT = re.compile(r"(?<=\s)#")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A variable of the file. Its value is None if the line cannot be parsed."""

    value: str | None
    line: int


def parse(text: str, environment: Mapping[str, str]) -> dict[str, Entry]:
    """Return the variables of a file. The last one of a name wins.

    References look in `environment` first, then in the lines before.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found: dict[str, Entry] = {}
    at, line, counted = 0, 1, 0
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        if read := _LINE.match(text, at):
            found[read["name"]] = Entry(_value(read, found, environment), line)
            at = read.end()
        elif name := _NAME.match(text, at):
            found[name[1]] = Entry(None, line)
        end = text.find("\n", at)
        at = len(text) if end < 0 else end + 1
    return found


def _value(read: re.Match[str], before: Mapping[str, Entry], environment: Mapping[str, str]) -> str:
    if read["single"] is not None:
        return read["single"]
    if read["double"] is not None:
        value = _ESCAPE.sub(lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), read["double"])
    else:
        comment = _COMMENT.search(read.string, *read.span("bare"))
        end = read.end("bare") if comment is None else comment.start()
        value = read.string[read.start("bare") : end].strip()

    def referred(reference: re.Match[str]) -> str:
        name, default = reference.groups()
        entry = before.get(name)
        return environment.get(name) or (entry.value if entry else None) or default or ""

    return _REFERENCE.sub(referred, value)
