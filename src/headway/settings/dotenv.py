r"""A .env file: lines of NAME=value.

    # a comment
    export HEADWAY_ENV=production          # `export` and a comment behind the value are left out
    NAME='taken as it is'
    NAME="with \n and \" in it, over
    several lines, and with ${OTHER} or ${OTHER:-a default}"

Other programs have their variables in it too. What cannot be read is left out, and named only where a
variable of Headway's is meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(
    r"""^[^\S\n]*(?:export[^\S\n]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)[^\S\n]*=[^\S\n]*
        (?: '(?P<single>[^']*)'            # as it is
          | "(?P<double>(?:\\.|[^"\\])*)"  # with escapes
          | (?P<bare>(?!['"])[^\n]*?)      # up to a comment
        )
        (?P<rest>[^\S\n]*(?:(?<=\s)\#[^\n]*)?)$""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_NAME = re.compile(r"[^\S\n]*(?:export[^\S\n]+)?([A-Za-z_][A-Za-z0-9_.]*)[^\S\n]*=")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A variable of the file. Its value is none if the line cannot be read."""

    value: str | None
    line: int


def parse(text: str, environment: Mapping[str, str]) -> dict[str, Entry]:
    """The variables of a file; the last of a name counts. References find `environment` first."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found: dict[str, Entry] = {}
    at = 0
    while at < len(text):
        line = text.count("\n", 0, at) + 1
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
        value = read["bare"].strip()

    def referred(reference: re.Match[str]) -> str:
        name, default = reference.groups()
        entry = before.get(name)
        return environment.get(name) or (entry.value if entry else None) or default or ""

    return _REFERENCE.sub(referred, value)
