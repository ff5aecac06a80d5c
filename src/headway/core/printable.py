"""Makes text from outside safe for terminals and line-based logs."""

from __future__ import annotations

import re

# C0, DEL and C1; direction marks; line separators; halves of a surrogate pair.
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SPELLED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with escapes for every character that could control a terminal or begin a line.

    >>> print(printable("a\x1b[31m\nb"), printable("a\n\u202eb", keep="\n"), sep=" | ")
    a\x1b[31m\nb | a
    \u202eb
    """
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _spell(found[0]), text)


def _spell(char: str) -> str:
    code = ord(char)
    return _SPELLED.get(char) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
